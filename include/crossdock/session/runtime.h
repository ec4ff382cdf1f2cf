#pragma once

#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/device/arena.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/device/pool.h"
#include "crossdock/device/registry.h"
#include "crossdock/offload/queue_manager.h"

namespace crossdock::session {

/// State that the servers and arrays of a process share: the drivers, and a list of all arenas and pools, by which
/// publishing recognizes memory that needs no copy. Thread-safe.
class CROSSDOCK_EXPORT Runtime {
 public:
  /// Makes a runtime of its own, apart from default_runtime(). Looks for no driver yet.
  Runtime();
  ~Runtime();

  /// Makes an arena that the servers of this runtime recognize. Its memory is freed with its last owner, unless it was
  /// published.
  std::shared_ptr<device::Arena> make_arena(std::uint64_t reserve = 0,
                                            device::Arena::Frozen frozen = device::Arena::Frozen::kReadOnly);
  /// Makes such an arena in memory of a device. Throws as DriverRegistry::context() and the constructor of DeviceArena.
  std::shared_ptr<device::DeviceArena> make_arena(const device::Device& device, std::uint64_t reserve = 0);
  /// Returns the arena that contains these bytes, or null.
  std::shared_ptr<device::Arena> find_arena(const void* pointer, std::uint64_t size) const;
  /// Returns the arena of a device that contains these bytes, or null.
  std::shared_ptr<device::DeviceArena> find_device_arena(const void* pointer, std::uint64_t size) const;

  /// Makes a pool that the servers of this runtime recognize.
  std::shared_ptr<device::Pool> make_pool(const device::PoolOptions& options = {});
  /// Returns the pool that contains these bytes, or null.
  std::shared_ptr<device::Pool> find_pool(const void* pointer, std::uint64_t size) const;

  /// Sets how drivers are searched for. Returns false and changes nothing if the search has already taken place.
  bool set_driver_options(device::DriverOptions options);
  /// Returns all drivers of this version. The first call searches for them, because opening vendors' libraries takes
  /// time.
  const std::shared_ptr<const device::DriverRegistry>& drivers() const;
  /// Returns the drivers' queues, found by their names.
  const std::shared_ptr<const offload::Queues>& queues() const;

  /// The runtime that is used if the caller names none.
  static const std::shared_ptr<Runtime>& default_runtime();

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::session
