#pragma once

#include <memory>
#include <optional>

#include "context_hold.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

namespace crossdock::device::cuda {

/// Memory that this driver allocated or mapped. The destructor frees it: kPool memory in the order of a stream, other
/// memory by the call that matches its source. In a forked child nothing is freed.
class Allocation {
 public:
  enum class Source : std::uint8_t { kPool, kDevice, kExportable, kPinned, kManaged, kImported };

  /// `allocated`, for kPool only, is an event that was recorded after the allocation in its stream. Takes the event.
  Allocation(std::shared_ptr<ContextHold> hold, Source source, CUdeviceptr pointer, CUevent allocated) noexcept;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  /// Returns the owner of a Buffer on this memory.
  static std::shared_ptr<void> owner(std::unique_ptr<Allocation> allocation);
  /// Returns the allocation of a Buffer's owner; null if this driver didn't make the owner.
  static Allocation* of(const std::shared_ptr<void>& owner) noexcept;

  Source source() const noexcept { return source_; }
  const ContextHold& hold() const noexcept { return *hold_; }
  /// Makes the destructor free kPool memory in the order of this queue.
  void free_on(const Queue& queue) { queue_ = queue; }

 private:
  void free() noexcept;
  void free_to_pool() noexcept;
  std::shared_ptr<ContextHold> hold_;
  Source source_;
  CUdeviceptr pointer_;
  CUevent allocated_;
  std::optional<Queue> queue_;
};

}  // namespace crossdock::device::cuda
