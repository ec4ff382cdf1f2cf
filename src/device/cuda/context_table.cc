#include "context_table.h"

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
    if (auto held = one.lock(); held != nullptr && (context == nullptr || held->native() == context)) return held;
  }
  return nullptr;
}

}  // namespace crossdock::device::cuda
