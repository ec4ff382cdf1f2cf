#include "session/source_batch.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/batch.h"

namespace crossdock::session {
namespace {

using array::RecordBatch;

bool is_part(const array::BufferView& part, const array::BufferView& whole) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(whole.data);
  const auto at = reinterpret_cast<std::uintptr_t>(part.data);
  return at >= start && at - start < static_cast<std::uintptr_t>(whole.size);
}

/// Returns a dictionary without values, for a batch on `device`.
std::shared_ptr<const RecordBatch> empty_dictionary(const std::shared_ptr<const array::Schema>& schema,
                                                    const device::Device& device) {
  auto empty = std::make_shared<RecordBatch>();
  empty->device = device;
  empty->schema = schema;
  empty->nodes.resize(schema->nodes().size());
  empty->buffers.resize(static_cast<std::size_t>(schema->n_buffers()));
  empty->variadic_counts.resize(static_cast<std::size_t>(schema->n_variadic()));
  empty->dictionaries.resize(schema->dictionaries().size());
  return empty;
}

}  // namespace

void check_announced(const RecordBatch& batch, const array::BatchStream& source) {
  const array::Schema& announced = *source.schema();
  if (batch.schema.get() != &announced && (!batch.schema || batch.schema->fields() != announced.fields())) {
    throw InvalidDataError("the schema of a batch differs from the schema that its source announced, which is\n" +
                           announced.to_string() + "\nThe batch has\n" +
                           (batch.schema ? batch.schema->to_string() : std::string("none")));
  }
  if (batch.device.type != source.device_type()) {
    throw InvalidDataError("a batch is on " + device::to_string(batch.device) + " in a stream of device type " +
                           std::to_string(static_cast<std::int32_t>(source.device_type())));
  }
}

void fail_published_arena() {
  throw ArenaFrozenError(
      "this table is in an arena that was already published; an arena is for one table: build each table in its own "
      "arena");
}

bool wait_on_host(RecordBatch* batch, const Runtime& runtime, const exchange::WaitFunction& wait) {
  if (!device::host_reaches(batch->device.type)) return false;
  if (!batch->host_readable()) {
    exchange::wait_for(*batch, *runtime.drivers(), wait);
    exchange::mark_ready(batch);
  }
  return true;
}

RecordBatch without_dictionaries(RecordBatch batch) {
  const auto& slots = batch.schema->dictionaries();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (batch.dictionaries[i]) batch.dictionaries[i] = empty_dictionary(slots[i].values, batch.device);
  }
  return batch;
}

exchange::BatchCopy plan_copy(RecordBatch batch, const Runtime& runtime, bool to_host) {
  return {without_dictionaries(std::move(batch)), *runtime.drivers(), to_host};
}

RecordBatch copied_to(exchange::BatchCopy copy, std::byte* memory, const std::shared_ptr<const void>& owner,
                      const exchange::WaitFunction& wait, std::uint64_t* copied, std::int64_t* bitmaps) {
  const RecordBatch whole = std::move(copy).to_host(memory, owner, wait);
  *copied += static_cast<std::uint64_t>(whole.nbytes());
  RecordBatch batch = array::normalized(whole, bitmaps, array::Offsets::kFromZero);
  // Bitmaps, offsets and run ends that were written anew are no longer than what was copied, whose place they take.
  for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
    array::BufferView& buffer = batch.buffers[i];
    const array::BufferView& place = whole.buffers[i];
    if (buffer.size == 0 || is_part(buffer, place)) continue;
    std::memcpy(const_cast<void*>(place.data), buffer.data, static_cast<std::size_t>(buffer.size));
    *copied += static_cast<std::uint64_t>(buffer.size);
    buffer.data = place.data;
  }
  batch.owner = owner;
  return batch;
}

}  // namespace crossdock::session
