#include "session/publish_batch.h"

#include <vector>

#include "device/region_address.h"

namespace crossdock::session {

std::shared_ptr<const PublishedTable> publish_batch(const array::RecordBatch& batch, const char* region,
                                                    std::int64_t version) {
  TableBuilder builder(batch.schema, version);
  device::RegionWriter writer(region);
  std::vector<dissociated::RemoteBuffer> remote;
  for (const array::BufferView& buffer : batch.buffers) {
    if (buffer.size == 0) {
      remote.push_back({});
      continue;
    }
    const auto size = static_cast<std::uint64_t>(buffer.size);
    remote.push_back(
        {device::make_address(0, writer.append({static_cast<const std::byte*>(buffer.data), size})), size});
  }
  builder.region_index(writer.freeze());
  ipc::Encoder encoder;
  builder.add(encoder.record_batch(batch), true, remote, batch.num_rows);
  return builder.finish();
}

}  // namespace crossdock::session
