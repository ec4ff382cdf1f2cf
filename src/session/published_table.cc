#include "session/published_table.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "session/table_version.h"

namespace crossdock::session {

const std::vector<std::shared_ptr<const device::Region>>& PublishedTable::readable_regions() const {
  if (readable_.size() != regions.size()) {
    std::vector<std::shared_ptr<const device::Region>> all;
    for (const auto& region : regions) all.push_back(device::readable(region, "memory of a published table"));
    readable_ = std::move(all);
  }
  return readable_;
}

device::Device PublishedTable::device() const noexcept {
  const auto found =
      std::ranges::find(regions, device::RegionKind::kDevice, [](const auto& region) { return region->kind(); });
  return found == regions.end() ? device::Device{} : (*found)->context()->device();
}

TableBuilder::TableBuilder(std::shared_ptr<const array::Schema> schema, std::int64_t version)
    : table_(std::make_shared<PublishedTable>()) {
  table_->schema = std::move(schema);
  table_->version = version;
  add(schema_message(*table_->schema, version), false, {}, 0);
}

void TableBuilder::add(ByteSpan metadata, bool has_body, std::span<const dissociated::RemoteBuffer> buffers,
                       std::int64_t rows, DictionaryMark dictionary) {
  PublishedTable& table = *table_;
  PublishedMessage message{};
  message.metadata_size = static_cast<std::uint32_t>(metadata.size());
  if (!table.messages.empty() && std::ranges::equal(table.metadata_of(table.messages.back()), metadata)) {
    message.metadata_offset = table.messages.back().metadata_offset;
  } else {
    message.metadata_offset = table.metadata.size();
    table.metadata.insert(table.metadata.end(), metadata.begin(), metadata.end());
  }
  message.first_buffer = table.buffers.size();
  message.n_buffers = static_cast<std::uint32_t>(buffers.size());
  table.buffers.insert(table.buffers.end(), buffers.begin(), buffers.end());
  for (const dissociated::RemoteBuffer& buffer : buffers) message.bytes += buffer.length;
  message.rows = rows;
  message.has_body = has_body;
  message.dictionary = dictionary;
  table.rows += rows;
  table.bytes += message.bytes;
  table.messages.push_back(message);
}

std::uint32_t TableBuilder::region_index(const std::shared_ptr<const device::Region>& region) {
  auto& regions = table_->regions;
  const auto found = std::ranges::find(regions, region);
  if (found != regions.end()) return static_cast<std::uint32_t>(found - regions.begin());
  if (regions.size() > 0xFFFF) throw ResourceError("a table can't have more than 65,536 regions of memory");
  regions.push_back(region);
  return static_cast<std::uint32_t>(regions.size() - 1);
}

}  // namespace crossdock::session
