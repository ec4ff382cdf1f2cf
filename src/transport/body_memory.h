#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "core/channel_role.h"
#include "crossdock/device/device.h"

namespace crossdock::transport {

/// Memory in which a connection receives bodies that arrive by value. A caller gives it to a connection so that bodies
/// arrive directly where they will be used. Thread-safe.
class BodyMemory {
 public:
  virtual ~BodyMemory() = default;
  /// The device that the memory is on. Only a connection that reaches() it may be given memory of a device.
  virtual device::Device device() const noexcept { return {}; }
  /// Whether the body of a tagged message belongs there. Others go to a pool of the connection's.
  virtual bool takes(std::uint64_t /*tag*/) const noexcept { return true; }
  /// Copies bytes of the host to allocated memory. They are there when it returns. Throws the errors of the device's
  /// driver.
  virtual void write(std::byte* to, ByteSpan from);
  /// Returns `size` writable bytes, 64-aligned, and readable by the host unless they are on a device. The returned
  /// owner frees them when the last batch is dropped, on any thread, possibly after this object was destroyed. The
  /// caller has bounded `size`, but the value may come from a hostile peer: reserve address space, and no pages for
  /// bytes that haven't arrived yet (memory of a device has no such thing: there the caller's bound is all). Throws
  /// ResourceError.
  virtual std::shared_ptr<std::byte> allocate(std::uint64_t size) = 0;
};

/// Whether a pool keeps the memory of a body that is larger than all that it may keep.
enum class LargeBodies : std::uint8_t {
  kKeepLast,  ///< For a stream, whose bodies have about the same size.
  kFree,      ///< For a peer, who chooses the size and may send nothing more.
};

/// Makes a pool that keeps released memory, with its pages, for the next body of about the same size. It keeps up to
/// `max_idle` bytes; with kKeepLast, the memory of a larger body instead. Transports use such a pool unless another
/// memory is given.
std::shared_ptr<BodyMemory> make_body_pool(std::uint64_t max_idle = 64ull << 20,
                                           LargeBodies large = LargeBodies::kKeepLast);
/// Makes the pool of a connection that carries this.
std::shared_ptr<BodyMemory> make_body_pool_for(ChannelRole role);

}  // namespace crossdock::transport
