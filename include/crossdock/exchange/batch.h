#pragma once

#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

/// Record batches of any device: what needs a driver. What goes in and out in C form is array/record_batch.h.
namespace crossdock::exchange {

/// True if nothing has to be waited for. Throws the failure of the work, if it is known.
CROSSDOCK_EXPORT bool is_ready(const array::RecordBatch& batch);

/// Waits, in the calling thread, until anybody may touch the memory, dictionaries' too; the event is gone then. What is
/// in memory that the host may read is then as imported from the host: sizes are read and the structure is checked
/// (array::read_sizes()). `context` is one of the driver whose event it is. Throws the failure of the work, and then
/// the event stays; InvalidDataError for what the check finds.
CROSSDOCK_EXPORT void wait_ready(array::RecordBatch* batch, device::Context& context);

/// Finds out the sizes that aren't known: one small copy on `queue`, a queue of `context`, for each such buffer (for a
/// view, one for all of its), after the batch's event, and one wait for all. Does nothing if all are known. Throws
/// InvalidDataError that names the field for a size below 0, and what the context's verbs throw.
CROSSDOCK_EXPORT void resolve_sizes(array::RecordBatch* batch, const std::shared_ptr<device::Context>& context,
                                    const device::Queue& queue);

/// The rows of `from` in new memory of `to`: every type, dictionaries too, and one that columns share once. `executor`
/// does it on `queue`, which is one of its own: the context of the one of the two that isn't the host, or of the
/// target's if neither is. The queue is ordered after the batch's event first, which is one of `executor`'s driver
/// (others are waited for before: wait_ready()). The result's event is the end of the copies; without bytes to copy it
/// has none.
///
/// One allocation holds all, each buffer at a multiple of 64 bytes. It is freed after the work that is on `queue`
/// when the last owner goes; `from`'s memory is kept until the copies are done. The number of driver calls depends on
/// the number of buffers alone: host buffers of less than kGathered bytes go in one copy, each other in one of its own.
///
/// What a slice doesn't show isn't copied. From the host: as by array::normalized() with Offsets::kFromZero. From a
/// device, none of whose bytes are looked at: buffers are cut to the elements shown, and to whole bytes of bitmaps (so
/// offsets may stay, up to 7); what offsets, run ends or type ids point into stays whole, from its start to its end.
///
/// Waits only for sizes that aren't known (resolve_sizes(), of `executor`'s device), and for the event of a batch that
/// is in host memory. The host driver as `executor` has copied when this returns. Throws UnsupportedError for memory
/// that has no addresses, InvalidDataError for a batch whose structure is wrong, InvalidArgumentError for unknown sizes
/// on another device than `executor`'s, and what the context's verbs throw; what was started then still has its memory.
CROSSDOCK_EXPORT array::RecordBatch copy(const array::RecordBatch& from, const std::shared_ptr<device::Context>& to,
                                         device::MemoryKind kind, const std::shared_ptr<device::Context>& executor,
                                         const device::Queue& queue);

/// Bytes from which a host buffer is copied by itself: below, a copy more in host memory costs less than a driver call.
inline constexpr std::int64_t kGathered = std::int64_t{32} << 10;

}  // namespace crossdock::exchange
