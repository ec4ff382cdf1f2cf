#include "device/release_order.h"

#include <atomic>
#include <utility>

namespace crossdock::device {

namespace {

std::atomic<const ReleaseHook*> installed{nullptr};

}  // namespace

void install_release_hook(const ReleaseHook& hook) noexcept { installed.store(&hook, std::memory_order_release); }

std::shared_ptr<const void> release_order() noexcept {
  const ReleaseHook* const hook = installed.load(std::memory_order_acquire);
  return hook != nullptr ? hook->done() : nullptr;
}

ReleaseScope::ReleaseScope(std::shared_ptr<const void> of) noexcept : of_(std::move(of)) {
  if (of_ != nullptr) before_ = installed.load(std::memory_order_acquire)->set_done(of_.get());
}

ReleaseScope::~ReleaseScope() {
  if (of_ != nullptr) installed.load(std::memory_order_acquire)->set_done(before_);
}

}  // namespace crossdock::device
