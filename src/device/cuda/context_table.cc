#include "context_table.h"

#include <utility>

#include "context_hold.h"

namespace crossdock::device::cuda {

void ContextTable::add(const std::shared_ptr<ContextHold>& hold) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [](const std::weak_ptr<ContextHold>& one) { return one.expired(); });
  held_.push_back(hold);
}

std::shared_ptr<ContextHold> ContextTable::find(CUcontext context) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<ContextHold>& one : held_) {
    if (auto held = one.lock(); held != nullptr && held->native() == context && held->alive()) return held;
  }
  return nullptr;
}

std::shared_ptr<ContextHold> ContextTable::any() const noexcept {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ContextHold> other;
  for (const std::weak_ptr<ContextHold>& one : held_) {
    auto held = one.lock();
    if (held == nullptr || !held->alive()) continue;
    if (held->native_unless_primary() == nullptr) return held;
    other = std::move(held);
  }
  return other;
}

}  // namespace crossdock::device::cuda
