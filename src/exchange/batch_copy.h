#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "crossdock/array/record_batch.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/exchange/sync.h"
#include "exchange/internal/queue_owned.h"

namespace crossdock::exchange {

class BatchPlan;

/// copy() of a batch (batch.h) in two steps, for callers that allocate the target: it is planned, then made. Errors and
/// order are those of copy(). Used by one thread at a time. May be dropped after either step.
class BatchCopy {
 public:
  /// Plans a copy by `executor` on `queue`, to host memory or not. Keeps the batch. Orders the queue after what is
  /// pending on it, and waits for sizes that aren't known.
  BatchCopy(const array::RecordBatch& from, bool to_host, std::shared_ptr<device::Context> executor,
            const device::Queue& queue);
  /// Plans a copy to host memory, or to memory of the batch's context, on the default queue of the batch's device.
  /// Throws as DriverRegistry::context().
  BatchCopy(const array::RecordBatch& from, const device::DriverRegistry& drivers, bool to_host);

  const device::Queue& queue() const noexcept { return queue_.queue(); }
  /// Returns the size of the target, which must be aligned to 64 bytes.
  std::uint64_t bytes() const noexcept;

  /// Whether the copy is in normal form (array::normalized()) but for null counts that aren't known: no array begins at
  /// an offset.
  bool normal() const;

  /// Returns the batch without a copy, in the memory where it is, if `stays` is true for each piece of that memory:
  /// what is pending on the source is pending on it. Returns nothing if a piece must be copied, or there is none; then
  /// the copy can still be made.
  std::optional<array::RecordBatch> in_place(const std::function<bool(const void*, std::uint64_t)>& stays);

  /// Starts the copy, and returns its target: with the end of the copy as its event, unless the host made the copy.
  array::RecordBatch into(device::Buffer target) &&;
  /// Does the same with memory that it allocates in an arena of the executor's.
  array::RecordBatch into(const std::shared_ptr<device::DeviceArena>& arena) &&;
  /// Copies to host memory that `owner` keeps, waits by `wait`, and returns a batch that is ready. On a throw, which
  /// may be an interrupted wait, `owner` is kept until the work that was started is over; afterwards by the batch
  /// alone.
  array::RecordBatch to_host(std::byte* memory, const std::shared_ptr<const void>& owner, const WaitFunction& wait) &&;

 private:
  device::Event start(const device::BufferRef& target);
  /// Starts the copies, and sets `*done` to the event of their end once all were started.
  void start_copies(const device::BufferRef& target, device::Event* done);
  array::RecordBatch made(const device::BufferRef& target, const std::shared_ptr<const void>& owner,
                          const device::Event* done);

  device::Memory from_;
  std::shared_ptr<device::Context> executor_;
  OwningQueue queue_;
  std::shared_ptr<BatchPlan> plan_;
  std::size_t n_gathered_ = 0;
};

}  // namespace crossdock::exchange
