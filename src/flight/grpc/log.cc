#include "log.h"

#include <grpc/support/log.h>

#include <atomic>

#include "message.h"

namespace crossdock::flight::grpc_module {
namespace {

std::atomic<void (*)(std::int32_t, xd_bytes)> log_function{nullptr};
thread_local std::string* captured = nullptr;

void on_message(gpr_log_func_args* message) {
  if (captured != nullptr && message->severity == GPR_LOG_SEVERITY_ERROR) *captured = message->message;
  const auto log = log_function.load(std::memory_order_acquire);
  if (log != nullptr) log(message->severity, bytes_of(message->message));
}

}  // namespace

void set_log(void (*log)(std::int32_t level, xd_bytes text)) {
  log_function.store(log, std::memory_order_release);
  gpr_set_log_function(on_message);  // by default it prints
}

LogCapture::LogCapture(std::string* text) noexcept { captured = text; }
LogCapture::~LogCapture() { captured = nullptr; }

}  // namespace crossdock::flight::grpc_module
