#include "core/fork.h"

#include <pthread.h>

#include <string>

#include "crossdock/core/error.h"

namespace crossdock {

std::atomic<std::uint64_t> ForkGuard::generation_{0};

ForkGuard::ForkGuard() noexcept {
  // Registers the handler before the first guard exists, so that no fork of a process that holds a guard is missed.
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation_.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  made_in_ = generation_.load(std::memory_order_relaxed);
}

void ForkGuard::fail(const char* what) {
  throw ForkError(std::string(what) +
                  " was made before a fork and belongs to the parent process; make a new one in this process");
}

}  // namespace crossdock
