#pragma once

#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"
#include "crossdock/exchange/copy.h"

/// Operations on record batches of any device that need a driver. For import and export in C form see
/// array/record_batch.h.
namespace crossdock::exchange {

/// Blocks the calling thread until the work on the memory, including that of dictionaries, is over; then nothing is
/// pending any more (see sync.h).
///
/// If the host may read the memory, the batch is then treated as one imported from the host: sizes are read and the
/// structure is checked, as by array::import_batch(). `context` is a context of the driver that the work belongs to.
/// Throws the error of failed work; the batch is then as it was. Throws InvalidDataError for errors that the check
/// finds.
CROSSDOCK_EXPORT void wait_ready(array::RecordBatch* batch, device::Context& context);

/// Forgets what is pending, as forget_work() does, for a batch whose work is over: the caller has waited for it. Reads
/// sizes and checks the structure as wait_ready() does, and throws as it does.
CROSSDOCK_EXPORT void mark_ready(array::RecordBatch* batch);

/// Makes the batch one of ordinary host memory, without a copy, as share_with_host() of sync.h does.
CROSSDOCK_EXPORT void share_with_host(array::RecordBatch* batch);

/// Reads the sizes that aren't known yet. Does nothing if all are known.
///
/// Starts one small copy for each such buffer (for a view type, one for all its buffers) on `queue`, a queue of
/// `context`, after what is pending on the batch. Then waits once for all of them. Throws InvalidDataError, which names
/// the field, for a negative size; also the errors of the context's functions.
CROSSDOCK_EXPORT void resolve_sizes(array::RecordBatch* batch, const std::shared_ptr<device::Context>& context,
                                    const device::Queue& queue);

/// Copies the rows of `from` to new memory: every type, and dictionaries too. A dictionary that columns share is copied
/// once. For the plan see copy.h.
///
/// The plan's queue is first ordered after what is pending on the batch (order_on()); call wait_ready() first for
/// events of other drivers. The result's event is the end of the copies. If there are no bytes to copy, the result has
/// no event.
///
/// All data lies in one allocation; each buffer begins at a multiple of 64 bytes. When the last owner is destroyed, the
/// allocation is freed after the work that is on the queue at that time. `from`'s memory is kept until the copies are
/// done. The number of driver calls depends on the number of buffers alone: all host buffers smaller than kGathered
/// bytes share one copy, and every other buffer has a copy of its own.
///
/// Data that a slice doesn't show isn't copied. From the host, the result is that of array::normalized() with
/// Offsets::kFromZero. From a device no data is read. Buffers are cut to the elements shown; bitmaps are cut to whole
/// bytes, so that an offset of up to 7 may stay. Data that offsets, run ends or type ids point into is copied whole.
///
/// Waits only for sizes that aren't known (resolve_sizes(), with the executor's device) and for the event of a batch in
/// host memory. If the executor is the host driver's context, the copy is complete on return. Throws UnsupportedError
/// for memory that has no addresses, InvalidDataError for a batch whose structure is wrong, InvalidArgumentError for
/// unknown sizes on a device other than the executor's, and the errors of the context's functions. After a throw, the
/// memory of copies that were started is kept until they are done.
CROSSDOCK_EXPORT array::RecordBatch copy(const array::RecordBatch& from, const CopyPlan& plan);

/// Copies the batch to an arena, for a table that will be published. It is on the host or on the arena's device;
/// `queue` is one of the arena's context.
CROSSDOCK_EXPORT array::RecordBatch copy(const array::RecordBatch& from,
                                         const std::shared_ptr<device::DeviceArena>& arena, const device::Queue& queue);

/// Copies a batch between any two places, as transfer() of copy.h does for tensors.
CROSSDOCK_EXPORT array::RecordBatch transfer(const array::RecordBatch& from, const device::Device& target,
                                             std::optional<device::MemoryKind> kind, const device::Queue* queue,
                                             const device::DriverRegistry& drivers,
                                             const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Returns the batch in memory of the host, with nothing pending, as on_host() of copy.h does for tensors.
CROSSDOCK_EXPORT array::RecordBatch on_host(const array::RecordBatch& from, const device::DriverRegistry& drivers,
                                            const WaitFunction& wait = wait_in_driver, const LogCallback& log = {});

/// Host buffers of at least this many bytes have a copy of their own. For smaller ones, an extra copy in host memory
/// costs less than a driver call.
inline constexpr std::int64_t kGathered = std::int64_t{32} << 10;

}  // namespace crossdock::exchange
