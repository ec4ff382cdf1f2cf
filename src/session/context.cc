#include "crossdock/session/context.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace crossdock::session {

struct Context::Impl {
  mutable std::mutex mutex;
  std::vector<std::weak_ptr<device::Arena>> arenas;  // few, and looked through once per published buffer
};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

std::shared_ptr<device::Arena> Context::make_arena(std::uint64_t reserve) {
  auto arena = std::make_shared<device::Arena>(reserve);
  const std::lock_guard lock(impl_->mutex);
  std::erase_if(impl_->arenas, [](const auto& known) { return known.expired(); });
  impl_->arenas.push_back(arena);
  return arena;
}

std::shared_ptr<device::Arena> Context::find_arena(const void* pointer, std::uint64_t size) const {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& known : impl_->arenas) {
    if (auto arena = known.lock(); arena && arena->contains(pointer, size)) return arena;
  }
  return nullptr;
}

const std::shared_ptr<Context>& Context::default_context() {
  static const std::shared_ptr<Context> context = std::make_shared<Context>();
  return context;
}

}  // namespace crossdock::session
