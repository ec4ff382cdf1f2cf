#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"
#include "crossdock/session/runtime.h"
#include "exchange/batch_copy.h"

/// The way of a source's batch, which may be on any device, to memory that can be published. Memory that the host can
/// read by its type, such as CUDA's pinned and managed memory, is host memory once its work is over. Other memory is
/// copied once, by its driver, into the memory that is published.
namespace crossdock::session {

/// Checks that a batch has the schema and the device type that its source announced. Consumers decode its batches by
/// that schema, and would otherwise read an integer as a float, for example. In most cases this only compares two
/// pointers. Throws InvalidDataError.
void check_announced(const array::RecordBatch& batch, const array::BatchStream& source);

/// Throws the ArenaFrozenError for a table in an arena that was published before.
[[noreturn]] void fail_published_arena();

/// Waits, by `wait`, for what is pending on a batch in memory that the host can read. Returns false, and does nothing,
/// for memory that it can't read. Throws the failure of the work, and as exchange::context_of_work() for work that no
/// driver here can wait for.
bool wait_on_host(array::RecordBatch* batch, const Runtime& runtime, const exchange::WaitFunction& wait);

/// Returns the batch with empty dictionaries, for a copy without them.
array::RecordBatch without_dictionaries(array::RecordBatch batch);

/// Plans the copy of a batch on a device to the host, or to memory of the same device, without its dictionaries, which
/// are messages of their own: the copy has empty ones. Throws UnsupportedError if there is no driver for the memory,
/// and as BatchCopy.
exchange::BatchCopy plan_copy(array::RecordBatch batch, const Runtime& runtime, bool to_host = true);

/// Makes such a copy in `memory`, which `owner` keeps, and waits for it by `wait`. Returns it in normal form
/// (array::normalized()), with all buffers in `memory`. Adds all bytes that were copied there to `*copied`, and those
/// of shifted bitmaps and run ends to `*bitmaps`. Throws as BatchCopy::to_host() and array::normalized().
array::RecordBatch copied_to(exchange::BatchCopy copy, std::byte* memory, const std::shared_ptr<const void>& owner,
                             const exchange::WaitFunction& wait, std::uint64_t* copied, std::int64_t* bitmaps);

}  // namespace crossdock::session
