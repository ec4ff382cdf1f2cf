#include <optional>
#include <utility>

#include "session/buffer_placer.h"
#include "session/dictionary_tracker.h"
#include "session/published_table.h"
#include "session/source_batch.h"

namespace crossdock::session {

std::shared_ptr<const PublishedTable> publish_stream(array::BatchStream& stream, const Runtime& runtime,
                                                     const exchange::WaitFunction& wait, std::int64_t version,
                                                     const char* kind) {
  TableBuilder builder(stream.schema(), version);
  builder.table().kind = kind;
  BufferPlacer placer(runtime, builder, wait);
  ipc::Encoder encoder;
  DictionaryTracker dictionaries;
  std::vector<dissociated::RemoteBuffer> buffers;
  std::int64_t bitmap_bytes = 0;

  const auto place_all = [&](const array::RecordBatch& batch) {
    buffers.clear();
    for (const array::BufferView& buffer : batch.buffers) buffers.push_back(placer.place_whole(buffer));
  };

  while (std::optional<array::RecordBatch> next = stream.next()) {
    check_announced(*next, stream);
    array::RecordBatch batch = *std::move(next);
    const bool on_host = wait_on_host(&batch, runtime, wait);
    if (on_host) {
      const array::Offsets offsets = placer.in_shared_memory(batch) ? array::Offsets::kKeep : array::Offsets::kFromZero;
      batch = array::normalized(std::move(batch), &bitmap_bytes, offsets);
    } else {
      check_structure(batch);
    }
    dictionaries.update(batch, [&](std::int64_t id, const array::RecordBatch& given) {
      const array::RecordBatch values =
          on_host ? array::normalized(given, &bitmap_bytes) : placer.from_device(given, &bitmap_bytes);
      place_all(values);
      placer.keep(values.owner);
      builder.add(encoder.dictionary_batch(values, id, false), true, buffers, 0, {.id = id});
    });
    if (!on_host) batch = placer.from_device(batch, &bitmap_bytes);
    place_all(batch);
    placer.keep(batch.owner);
    builder.add(encoder.record_batch(batch), true, buffers, batch.num_rows);
  }
  placer.finish();
  builder.table().bitmap_bytes_copied = static_cast<std::uint64_t>(bitmap_bytes);
  return builder.finish();
}

}  // namespace crossdock::session
