#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/device/device.h"

namespace crossdock::device {

/// Who may touch memory of a device. SYCL's names: the device type alone doesn't tell them apart there.
enum class MemoryKind : std::uint8_t {
  kDevice,  ///< The device alone; a host access is a crash.
  kHost,    ///< Host memory that the device can reach; for the host driver, ordinary memory.
  kShared,  ///< Moves to whoever touches it.
};

/// A view of memory that somebody else owns: nothing is kept alive. A plain value.
struct BufferRef {
  void* data = nullptr;    ///< As the device addresses it; dereferenced by nobody but the driver.
  std::uint64_t size = 0;  ///< Bytes.
  Device device;
  MemoryKind kind = MemoryKind::kHost;
  bool read_only = false;

  /// `length` bytes from `offset` on. The caller has checked that they are there.
  BufferRef slice(std::uint64_t offset, std::uint64_t length) const noexcept {
    BufferRef part = *this;
    part.data = static_cast<std::byte*>(data) + offset;
    part.size = length;
    return part;
  }
  /// By addresses alone: of memory in one address space.
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

/// Memory and its owner. Move-only. Dropping it gives the memory back at once: whoever drops it has made sure that no
/// queue still works on it, or hands it to Context::free(), which frees it after a queue's work. One thread at a
/// time; it may be dropped on any.
class Buffer {
 public:
  Buffer() noexcept = default;
  /// For drivers. The memory goes with `owner`'s last copy.
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
  /// Gives the owner away, for memory that goes on in a protocol with a deleter of its own; the Buffer is empty
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
