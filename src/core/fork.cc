#include "crossdock/core/fork.h"

#include <pthread.h>

#include <string>

#include "crossdock/core/error.h"

namespace crossdock {

std::atomic<std::uint64_t> ForkGuard::generation_{0};

ForkGuard::ForkGuard() noexcept {
  // The handler is registered before the first guard exists, so no fork of a process that holds one goes unseen.
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation_.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  made_in_ = generation_.load(std::memory_order_relaxed);
}

void ForkGuard::check(const char* what) const {
  if (in_child()) {
    throw ForkError(std::string(what) +
                    " was made before a fork and belongs to the parent process; make a new one in this process");
  }
}

}  // namespace crossdock
