#include <memory>
#include <utility>
#include <vector>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/session/file.h"
#include "device/region_address.h"
#include "ipc/container.h"
#include "session/file_source.h"
#include "session/published_table.h"

namespace crossdock::session {
std::shared_ptr<const PublishedTable> publish_file(const std::string& path, Stability stability, const Runtime& runtime,
                                                   const ipc::Limits& limits, std::int64_t version) {
  const std::shared_ptr<const device::Region> region = device::Region::open_file(path);
  std::shared_ptr<const ipc::ContainerSource> source = std::make_shared<FileSource>(region, path);
  ipc::Container container = ipc::read_container(*source, path, limits);
  if (container.compressed || container.endianness != ipc::Endianness::kLittle) {
    const std::unique_ptr<ipc::FileReader> decoded = open_file(path, {.limits = limits});
    return publish_stream(*decoded, runtime, exchange::wait_in_driver, version, "snapshot");
  }

  ByteSpan file(region->data(), region->size());
  std::shared_ptr<const device::Region> served = region;
  std::shared_ptr<const device::Region> mapped_copy;
  // A file's bytes start at offset 0 of its region, to which no address may point. But its first bytes are metadata.
  std::uint64_t shift = 0;
  const bool snapshot = stability == Stability::kSnapshot;
  if (snapshot) {
    device::RegionWriter writer("crossdock-snapshot");
    shift = writer.append(file);
    region->check_unchanged();
    served = writer.freeze();
    // From here on, only the copy is used: file times are coarse and don't show every change.
    mapped_copy = device::readable(served, "the snapshot of " + path);
    file = ByteSpan(mapped_copy->data() + shift, region->size());
    source = std::make_shared<ipc::MemorySource>(file);
    container = ipc::read_container(*source, path, limits);
  }
  TableBuilder builder(container.schema, version);
  builder.table().kind = snapshot ? "snapshot" : "file";
  builder.table().bytes_copied = snapshot ? region->size() : 0;
  builder.region_index(served);

  ipc::Encoder encoder;
  ipc::BatchHeader header;
  std::vector<dissociated::RemoteBuffer> remote;
  std::vector<std::uint64_t> metadata;  // copied: the file may be written between a check and its use
  for (const ipc::ContainerMessage& place : container.messages) {
    const ipc::Message message = ipc::read_message(*source, place, path.c_str(), limits, &metadata);
    const bool is_dictionary = message.kind() == ipc::MessageKind::kDictionaryBatch;
    std::shared_ptr<const array::Schema> schema = container.schema;
    std::int64_t id = -1;
    if (is_dictionary) {
      id = message.dictionary_id();
      schema = container.schema->find_dictionary(id);
    }
    if (schema) message.batch(*schema, &header);
    if (!schema || header.codec != ipc::Codec::kNone) {
      throw FileChangedError("the file " + excerpt(path, kMostPath) + " changed while it was read for publishing");
    }
    // In the file, buffers of a body may be aligned to 8 bytes; on the wire, they are described as aligned to 64, so
    // the header is encoded anew.
    std::vector<array::BufferView> views;
    remote.clear();
    for (const ipc::BufferRange& range : header.buffers) {
      const auto offset = static_cast<std::uint64_t>(place.body_offset + range.offset);
      const auto length = static_cast<std::uint64_t>(range.length);
      views.push_back({length == 0 ? nullptr : file.data() + offset, range.length});
      remote.push_back(length == 0 ? dissociated::RemoteBuffer{}
                                   : dissociated::RemoteBuffer{device::make_address(0, offset + shift), length});
    }
    // Only nodes and sizes are encoded: dictionaries are separate messages, as in the file.
    std::vector<std::shared_ptr<const array::RecordBatch>> dictionaries(schema->dictionaries().size());
    const array::RecordBatch batch =
        ipc::assemble(std::move(schema), header, std::move(views), std::move(dictionaries), nullptr);
    builder.add(is_dictionary ? encoder.dictionary_batch(batch, id, header.is_delta) : encoder.record_batch(batch),
                true, remote, is_dictionary ? 0 : batch.num_rows, {.id = id, .is_delta = header.is_delta});
  }
  return builder.finish();
}

}  // namespace crossdock::session
