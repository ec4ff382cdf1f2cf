#include "crossdock/session/runtime.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace crossdock::session {

namespace {

/// Arenas or pools that are held somewhere: few; searched once per published buffer. Thread-safe.
template <class Arena>
class Arenas {
 public:
  void add(const std::shared_ptr<Arena>& arena) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& known) { return known.expired(); });
    all_.push_back(arena);
  }
  std::shared_ptr<Arena> find(const void* pointer, std::uint64_t size) const {
    // This may hold the last owner of an arena. It is destroyed without the lock, because hooks of the arena may take
    // other locks.
    std::vector<std::shared_ptr<Arena>> arenas;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& known : all_) {
        if (auto arena = known.lock()) arenas.push_back(std::move(arena));
      }
    }
    const auto found = std::ranges::find_if(arenas, [&](const auto& arena) { return arena->contains(pointer, size); });
    return found == arenas.end() ? nullptr : *found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Arena>> all_;
};

}  // namespace

struct Runtime::Impl {
  mutable std::mutex mutex;
  Arenas<device::Arena> arenas;
  Arenas<device::DeviceArena> device_arenas;
  Arenas<device::Pool> pools;
  std::once_flag looked;
  bool has_looked = false;
  device::DriverOptions options;
  std::shared_ptr<const device::DriverRegistry> drivers;
  std::shared_ptr<const offload::Queues> queues;

  void look() {
    std::call_once(looked, [this] {
      device::DriverOptions chosen;
      {
        const std::lock_guard lock(mutex);
        has_looked = true;
        chosen = options;
      }
      drivers = device::make_default_registry(chosen);
      queues = std::make_shared<const offload::Queues>(drivers);
    });
  }
};

Runtime::Runtime() : impl_(std::make_unique<Impl>()) {}
Runtime::~Runtime() = default;

std::shared_ptr<device::Arena> Runtime::make_arena(std::uint64_t reserve, device::Arena::Frozen frozen) {
  auto arena = std::make_shared<device::Arena>(reserve, frozen);
  impl_->arenas.add(arena);
  return arena;
}

std::shared_ptr<device::DeviceArena> Runtime::make_arena(const device::Device& device, std::uint64_t reserve) {
  auto arena = std::make_shared<device::DeviceArena>(drivers()->context(device), reserve);
  impl_->device_arenas.add(arena);
  return arena;
}

std::shared_ptr<device::Arena> Runtime::find_arena(const void* pointer, std::uint64_t size) const {
  return impl_->arenas.find(pointer, size);
}

std::shared_ptr<device::DeviceArena> Runtime::find_device_arena(const void* pointer, std::uint64_t size) const {
  return impl_->device_arenas.find(pointer, size);
}

std::shared_ptr<device::Pool> Runtime::make_pool(const device::PoolOptions& options) {
  auto pool = device::Pool::make(options);
  impl_->pools.add(pool);
  return pool;
}

std::shared_ptr<device::Pool> Runtime::find_pool(const void* pointer, std::uint64_t size) const {
  return impl_->pools.find(pointer, size);
}

bool Runtime::set_driver_options(device::DriverOptions options) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->has_looked) return false;
  impl_->options = std::move(options);
  return true;
}

const std::shared_ptr<const device::DriverRegistry>& Runtime::drivers() const {
  impl_->look();
  return impl_->drivers;
}

const std::shared_ptr<const offload::Queues>& Runtime::queues() const {
  impl_->look();
  return impl_->queues;
}

const std::shared_ptr<Runtime>& Runtime::default_runtime() {
  // Never destroyed: drivers must not be called at process exit, when their libraries are already unloaded.
  static const auto* const runtime = new std::shared_ptr<Runtime>(std::make_shared<Runtime>());
  return *runtime;
}

}  // namespace crossdock::session
