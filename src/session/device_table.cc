#include "session/device_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "device/region_address.h"
#include "exchange/batch_copy.h"
#include "session/published_table.h"
#include "session/source_batch.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kAlignment = 64;  // also the unused start of a region: address 0 means no buffer
constexpr std::uint64_t kLargestStep = std::uint64_t{1} << 30;

bool has_views(const array::Schema& schema) {
  return std::ranges::any_of(schema.nodes(), [](const array::LayoutNode& node) { return node.type.variadic; }) ||
         std::ranges::any_of(schema.dictionaries(),
                             [](const array::DictionarySlot& slot) { return has_views(*slot.values); });
}

using Range = std::pair<std::uint64_t, std::uint64_t>;

/// Returns a region of the host with the same bytes at the same offsets. `used`: the parts that hold buffers, in order.
std::shared_ptr<const device::Region> host_copy_of(const device::Region& region, const std::vector<Range>& used,
                                                   std::uint64_t* copied) {
  const std::uint64_t end = used.back().second;
  // The arena's first memory is at the same offset as the region's.
  const auto arena = std::make_shared<device::Arena>(align_up(end, kAlignment));
  const device::BufferRef from = region.memory().slice(kAlignment, end - kAlignment);
  const device::BufferRef to{.data = arena->allocate(from.size), .size = from.size};
  device::Context& context = *region.context();
  context.wait(context.copy_recorded(to, from, context.make_queue()));
  *copied += from.size;
  // Between the buffers is whatever the device's memory held before.
  std::uint64_t at = kAlignment;
  for (const auto& [first, last] : used) {
    if (first > at) std::memset(static_cast<std::byte*>(to.data) + (at - kAlignment), 0, first - at);
    at = std::max(at, last);
  }
  return arena->freeze();
}

}  // namespace

DeviceMemory::DeviceMemory(const array::Schema& schema, const Runtime& runtime, const exchange::WaitFunction& wait)
    : runtime_(runtime), wait_(wait), has_views_(has_views(schema)) {}

std::optional<array::RecordBatch> DeviceMemory::copied(const array::RecordBatch& batch, std::uint64_t* copied,
                                                       std::int64_t* bitmaps) {
  // A peer opens memory in its device's usual context.
  if (batch.native_context != nullptr || has_views_) return std::nullopt;
  const auto context = runtime_.drivers()->context_or_null(batch.device);
  if (!context || context->device() != batch.device || context->identity().empty()) return std::nullopt;
  exchange::BatchCopy copy = plan_copy(batch, runtime_, false);
  if (copy.normal()) return placed(std::move(copy), context, copied);
  exchange::BatchCopy to_host = plan_copy(batch, runtime_);
  const std::shared_ptr<std::byte[]> memory(new std::byte[to_host.bytes()]);
  const array::RecordBatch here = copied_to(std::move(to_host), memory.get(), memory, wait_, copied, bitmaps);
  return placed({here, false, context, copy.queue()}, context, copied);
}

array::RecordBatch DeviceMemory::placed(exchange::BatchCopy copy, const std::shared_ptr<device::Context>& context,
                                        std::uint64_t* copied) {
  device::Buffer memory = copy.bytes() == 0 ? device::Buffer({.device = context->device()}, nullptr)
                                            : allocate(copy.bytes(), context, copy.queue());
  array::RecordBatch made = std::move(copy).into(std::move(memory));
  exchange::wait_for(made, *runtime_.drivers(), wait_);
  exchange::forget_work(&made);
  *copied += static_cast<std::uint64_t>(made.nbytes());
  return made;
}

// Memory that is allocated later is as large as all before it, so that a table of many batches has few regions.
device::Buffer DeviceMemory::allocate(std::uint64_t size, const std::shared_ptr<device::Context>& context,
                                      const device::Queue& queue) {
  size = align_up(size, kAlignment);
  const auto fits = [&](const Slab& slab) {
    return slab.region->context() == context && slab.region->size() - slab.used >= size;
  };
  auto slab = std::ranges::find_if(slabs_, fits);
  if (slab == slabs_.end()) {
    const std::uint64_t whole = kAlignment + std::max(size, std::min(total_, kLargestStep));
    device::Buffer memory = context->allocate(whole, device::MemoryKind::kDevice, device::Sharing::kExportable, queue);
    slabs_.push_back({device::Region::of_device(context, std::move(memory)), kAlignment});
    slab = slabs_.end() - 1;
    total_ += whole;
  }
  const device::BufferRef place = slab->region->memory().slice(slab->used, size);
  slab->used += size;
  return {place, std::const_pointer_cast<device::Region>(slab->region)};
}

std::shared_ptr<const device::Region> DeviceMemory::find(const void* pointer, std::uint64_t size) const noexcept {
  const auto found =
      std::ranges::find_if(slabs_, [&](const Slab& slab) { return slab.region->contains(pointer, size); });
  return found == slabs_.end() ? nullptr : found->region;
}

std::shared_ptr<const PublishedTable> host_copy_of(const PublishedTable& table) {
  // Only members that don't change: the I/O thread uses the others meanwhile.
  auto out = std::make_shared<PublishedTable>();
  out->schema = table.schema;
  out->messages = table.messages;
  out->metadata = table.metadata;
  out->buffers = table.buffers;
  out->regions = table.regions;
  out->kind = table.kind;
  out->rows = table.rows;
  out->bytes = table.bytes;

  std::vector<std::vector<Range>> used(out->regions.size());  // of each region
  for (const dissociated::RemoteBuffer& buffer : out->buffers) {
    if (buffer.length == 0) continue;
    const std::uint64_t at = device::address_offset(buffer.address);
    used[device::address_region(buffer.address)].emplace_back(at, at + buffer.length);
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (out->regions[i]->kind() != device::RegionKind::kDevice) continue;
    std::ranges::sort(used[i]);
    out->regions[i] = host_copy_of(*out->regions[i], used[i], &out->bytes_copied);
  }
  return out;
}

}  // namespace crossdock::session
