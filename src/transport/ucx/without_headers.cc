// Stands in for the other sources of this folder where UCX's headers were missing when Crossdock was built.
#include "crossdock/core/error.h"
#include "transport/ucx.h"

namespace crossdock::transport {
namespace {

constexpr const char* kNoUcx = "this Crossdock was built without UCX's headers (libucx-dev)";

[[noreturn]] void fail_without_ucx() {
  throw UnsupportedError(std::string("ucx: ") + kNoUcx + "; build it with them, or use tcp:");
}

class NoUcx final : public Transport {
 public:
  std::string_view scheme() const noexcept override { return "ucx"; }
  Ways ways() const noexcept override { return Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string&) const override { fail_without_ucx(); }
  std::unique_ptr<Listener> listen(const std::string&, std::uint64_t, std::uint64_t, LogCallback) const override {
    fail_without_ucx();
  }
  std::unique_ptr<Connection> connect(const std::string&, const ConnectOptions&, int,
                                      const InterruptHook&) const override {
    fail_without_ucx();
  }
};

}  // namespace

UcxReport find_ucx(const UcxOptions&) { return {.tried = {kNoUcx}}; }

std::unique_ptr<Listener> ucx_listen(const std::string&, std::uint64_t, std::uint64_t, const UcxOptions&, LogCallback) {
  fail_without_ucx();
}

std::unique_ptr<Connection> ucx_connect(const std::string&, const UcxOptions&, int, const InterruptHook&,
                                        const ConnectOptions&) {
  fail_without_ucx();
}

std::shared_ptr<const Transport> make_ucx_transport(const UcxOptions&) { return std::make_shared<const NoUcx>(); }

}  // namespace crossdock::transport
