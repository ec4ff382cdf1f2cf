#pragma once

#include <cstdint>
#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/device/device.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

class Region;

/// Memory of one device to build one table in. Publishing takes it over without a copy, and other processes open it by
/// the driver's memory handles. Thread-safe.
///
/// No driver here can make memory read-only after it was written. So nothing prevents a write through a view after the
/// table was published: consumers see it, at any time. Don't write then.
class CROSSDOCK_EXPORT DeviceArena {
 public:
  /// `reserve` is the most that the arena can hold, in bytes. It is allocated here, and handed over as one piece. With
  /// 0 the arena grows by pieces, each as large as all before it (1 GiB at most, or as large as what is asked for).
  /// What the memory held before can be read by consumers, where no buffer was written. Throws InvalidArgumentError
  /// without a context, UnsupportedError if other processes can't open memory of this context, and as
  /// Context::allocate().
  explicit DeviceArena(std::shared_ptr<Context> context, std::uint64_t reserve = 0);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  /// The context that the memory is allocated in; never null. Valid as long as the arena.
  const std::shared_ptr<Context>& context() const noexcept;

  /// Allocates memory, not zeroed, aligned to 64 bytes. It lives as long as the arena or the published table. Nothing
  /// is pending on it: every queue may use it. Size 0 returns an address in the arena, too. Throws ArenaFrozenError,
  /// ResourceError (over `reserve`, or the device has no memory), ForkError.
  BufferRef allocate(std::uint64_t size);
  /// Returns true if these bytes are in one piece of the arena's memory, allocated or not.
  bool contains(const void* pointer, std::uint64_t size) const noexcept { return region_of(pointer, size) != nullptr; }
  /// Returns the bytes that were allocated, with padding.
  std::uint64_t size() const noexcept;
  /// Returns true after freeze(): allocate() throws ArenaFrozenError.
  bool frozen() const noexcept;

  /// Ends allocation, for good.
  void freeze() noexcept;
  /// Returns the region (src/device/region.h) that these bytes are in; null if there is none. Programs outside this
  /// library can only hold it, which keeps the memory.
  std::shared_ptr<const Region> region_of(const void* pointer, std::uint64_t size) const noexcept;

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::device
