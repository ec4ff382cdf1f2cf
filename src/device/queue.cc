#include "crossdock/device/queue.h"

#include <atomic>

namespace crossdock::device {

std::uint64_t Queue::this_thread() noexcept {
  static std::atomic<std::uint64_t> given{0};
  thread_local const std::uint64_t mine = ++given;
  return mine;
}

}  // namespace crossdock::device
