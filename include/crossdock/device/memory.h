#pragma once

#include <memory>
#include <optional>

#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

namespace crossdock::device {

/// Everything about an array's memory that must go along when the array is handed over, except its addresses: where it
/// is, what keeps it alive, and which work on it is pending. Tensors and record batches are made of it. A plain value:
/// copies stand for the same memory, and one thread at a time may change one.
///
/// Pending work is the event, and all work that is on the queue at the moment of an export. Each export is ordered
/// after both: pending().
struct Memory {
  Device device;                           ///< Where the memory is.
  MemoryKind kind = MemoryKind::kHost;     ///< Which side may access it.
  bool read_only = false;                  ///< Consumers must not write to it; the producer may.
  std::shared_ptr<void> native_context{};  ///< The native context that it belongs to; null for its device's usual one.
  std::shared_ptr<const void> owner{};     ///< Keeps the memory alive, and all that `event` and `queue` need.
  Event event{};  ///< Work that must be over, or ordered first. If there is a queue, an event of its driver.
  std::optional<Queue> queue{};  ///< The queue of the producer's work, if it named one.
  /// The context of the queue's device, or of the event's. If it is null and there is a queue, no driver here can order
  /// or wait for that queue: then the queue is only passed on, by protocols that can carry it. If it is null and there
  /// is an event alone, the event is one of the memory's device.
  std::shared_ptr<Context> context{};
  /// An event that was recorded on the queue, or none. If `event` is this same event, it needs no order of its own: the
  /// queue's end comes after it.
  Event recorded{};

  /// Returns the handle of `native_context`.
  NativeContext context_handle() const noexcept { return NativeContext(native_context.get()); }
  /// Returns true for host memory of any kind, and for device memory that the host may read (pinned, managed).
  bool host_accessible() const noexcept {
    return host_reaches(device.type) || (kind != MemoryKind::kDevice && has_addresses(device.type));
  }
  /// Returns true if there is no pending work: neither a queue, whose work may be complete, nor an event. Throws the
  /// failure that the event carries. Doesn't ask the driver.
  bool ready() const { return (event.none() || event.need() == nullptr) && !queue; }
  /// Returns true if the work is on a queue that no driver here can order or wait for.
  bool out_of_reach() const noexcept { return queue && context == nullptr; }
  /// Throws ExportError, which names the queue, if it is out of reach.
  CROSSDOCK_EXPORT void check_reach() const;
  /// Returns true if work that is put on the queue from now on comes after `event`.
  bool queue_covers_event() const noexcept { return event.none() || event.native() == recorded.native(); }
  /// Throws ExportError if the memory is in another context than its device's usual one, as a device alone can't tell:
  /// `protocol` names the protocol that can't.
  void check_usual_context(const char* protocol) const {
    if (native_context != nullptr) [[unlikely]]
      fail_other_context(protocol);
  }
  /// Returns an event for the end of all that is pending now; a complete event if nothing is. With a queue, records an
  /// event on it, after `event` if there is one, and doesn't wait. On threads that can't record on the queue
  /// (Queue::usable_here()), returns `event` alone. Throws the failure of the work if it is known, ExportError if the
  /// queue is out of reach, and as Context::record().
  CROSSDOCK_EXPORT Event pending() const;
  /// Makes `on`, a queue of `its` context, the memory's queue. The caller has ordered it after all that was pending.
  /// The memory's event is `end` from now on, an event of the queue's work, or none. If the queue is bound to the
  /// calling thread and there is no `end`, records an event for other threads.
  CROSSDOCK_EXPORT void set_queue(std::shared_ptr<Context> its, Queue on, Event end = {});

 private:
  [[noreturn]] CROSSDOCK_EXPORT void fail_other_context(const char* protocol) const;
};

}  // namespace crossdock::device
