#include "session/device_table.h"

#include <algorithm>
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

}  // namespace

std::optional<array::RecordBatch> DeviceMemory::copied(const array::RecordBatch& batch, std::uint64_t* copied,
                                                       std::int64_t* bitmaps) {
  // A peer opens memory in its device's usual context.
  if (batch.native_context != nullptr || has_views(*batch.schema)) return std::nullopt;
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
  auto out = std::make_shared<PublishedTable>(table);
  out->bytes_copied = 0;
  out->readers = 0;
  std::vector<std::uint64_t> ends(out->regions.size());  // of what is used of each region
  for (const dissociated::RemoteBuffer& buffer : out->buffers) {
    if (buffer.length == 0) continue;
    std::uint64_t& end = ends[device::address_region(buffer.address)];
    end = std::max(end, device::address_offset(buffer.address) + buffer.length);
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    std::shared_ptr<const device::Region>& region = out->regions[i];
    if (region->kind() != device::RegionKind::kDevice) continue;
    // The arena's first memory is at the same offset as the region's.
    const auto arena = std::make_shared<device::Arena>(align_up(ends[i], kAlignment));
    const device::BufferRef from = region->memory().slice(kAlignment, ends[i] - kAlignment);
    const device::BufferRef to{.data = arena->allocate(from.size), .size = from.size};
    device::Context& context = *region->context();
    context.wait(context.copy_recorded(to, from, context.make_queue()));
    out->bytes_copied += from.size;
    region = arena->freeze();
  }
  return out;
}

}  // namespace crossdock::session
