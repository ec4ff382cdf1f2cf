#pragma once

#include <memory>
#include <optional>

#include "context_hold.h"
#include "crossdock/device/buffer.h"
#include "crossdock/device/queue.h"

namespace crossdock::device::cuda {

/// Memory that this driver allocated or mapped, freed when it goes: for kPool in the order of a stream, else by
/// the call that belongs to how it came. In a forked child nothing is freed.
class Allocation {
 public:
  enum class Source : std::uint8_t { kPool, kDevice, kExportable, kPinned, kManaged, kImported };

  /// `allocated`, for kPool: recorded behind the allocation in its stream. Takes it.
  Allocation(std::shared_ptr<ContextHold> hold, Source source, CUdeviceptr pointer, CUevent allocated) noexcept;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  /// The owner of a Buffer on this memory.
  static std::shared_ptr<void> owner(std::unique_ptr<Allocation> allocation);
  /// The allocation that a Buffer's owner stands for; null if that is somebody else's.
  static Allocation* of(const std::shared_ptr<void>& owner) noexcept;

  Source source() const noexcept { return source_; }
  const ContextHold& hold() const noexcept { return *hold_; }
  /// Has kPool memory freed in the order of this queue.
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
