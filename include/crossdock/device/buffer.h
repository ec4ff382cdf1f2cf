#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/device/device.h"

namespace crossdock::device {

/// Says which side may access memory of a device. The names are SYCL's: in SYCL the device type alone doesn't
/// distinguish the kinds.
enum class MemoryKind : std::uint8_t {
  kDevice,  ///< Only the device may access it; a host access crashes.
  kHost,    ///< Host memory that the device can reach; for the host driver, ordinary memory.
  kShared,  ///< The driver moves it to the side that accesses it.
};

/// A view of memory. It doesn't own the memory, and keeps nothing alive. A plain value.
struct BufferRef {
  void* data = nullptr;    ///< The device's address. Only the driver may dereference it.
  std::uint64_t size = 0;  ///< Bytes.
  Device device;
  MemoryKind kind = MemoryKind::kHost;
  bool read_only = false;

  /// Returns a view of `length` bytes from `offset` on. The caller has checked that they are inside.
  BufferRef slice(std::uint64_t offset, std::uint64_t length) const noexcept {
    BufferRef part = *this;
    part.data = static_cast<std::byte*>(data) + offset;
    part.size = length;
    return part;
  }
  /// Compares addresses alone, so both must be in one address space.
  bool overlaps(const BufferRef& other) const noexcept {
    const auto mine = reinterpret_cast<std::uintptr_t>(data);
    const auto its = reinterpret_cast<std::uintptr_t>(other.data);
    return mine < its ? its - mine < size : mine - its < other.size;
  }
  BufferRef as_read_only() const noexcept {
    BufferRef view = *this;
    view.read_only = true;
    return view;
  }
};

/// Memory and its owner. Move-only. Dropping it frees the memory at once. So the caller makes sure that no queue still
/// works on the memory before it drops the Buffer, or passes it to Context::free(), which frees it after a queue's
/// work. Use it on one thread at a time; it may be dropped on any thread.
class Buffer {
 public:
  Buffer() noexcept = default;
  /// For drivers. The memory is freed with `owner`'s last copy.
  Buffer(const BufferRef& memory, std::shared_ptr<void> owner) noexcept : memory_(memory), owner_(std::move(owner)) {}
  Buffer(Buffer&& other) noexcept
      : memory_(std::exchange(other.memory_, BufferRef{})), owner_(std::move(other.owner_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    memory_ = std::exchange(other.memory_, BufferRef{});
    owner_ = std::move(other.owner_);
    return *this;
  }

  const BufferRef& ref() const noexcept { return memory_; }
  void* data() const noexcept { return memory_.data; }
  std::uint64_t size() const noexcept { return memory_.size; }
  const Device& device() const noexcept { return memory_.device; }
  bool read_only() const noexcept { return memory_.read_only; }
  /// Returns the owner, for memory that is passed on by a protocol with its own deleter. The Buffer is empty
  /// afterwards.
  std::shared_ptr<void> release() noexcept {
    memory_ = BufferRef{};
    return std::move(owner_);
  }

 private:
  BufferRef memory_;
  std::shared_ptr<void> owner_;
};

}  // namespace crossdock::device
