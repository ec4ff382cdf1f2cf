#include "session/device_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "device/region_address.h"
#include "exchange/batch_copy.h"
#include "session/published_table.h"
#include "session/source_batch.h"

namespace crossdock::session {
namespace {

using device::kRegionStart;

bool has_views(const array::Schema& schema) {
  return std::ranges::any_of(schema.nodes(), [](const array::LayoutNode& node) { return node.type.variadic; }) ||
         std::ranges::any_of(schema.dictionaries(),
                             [](const array::DictionarySlot& slot) { return has_views(*slot.values); });
}

using Range = std::pair<std::uint64_t, std::uint64_t>;

/// Returns a region of the host with the same bytes at the same offsets. `used`: the parts that hold buffers, in order.
std::shared_ptr<const device::Region> host_copy_of(const device::Region& region, const std::vector<Range>& used,
                                                   std::uint64_t* copied) {
  const std::uint64_t end = std::ranges::max(used, {}, &Range::second).second;  // they may overlap
  // The arena's first memory is at the same offset as the region's.
  const auto arena = std::make_shared<device::Arena>(align_up(end, kBufferAlignment));
  const device::BufferRef from = region.memory().slice(kRegionStart, end - kRegionStart);
  const device::BufferRef to{.data = arena->allocate(from.size), .size = from.size};
  device::Context& context = *region.context();
  context.wait(context.copy_recorded(to, from, context.make_queue()));
  *copied += from.size;
  // Between the buffers is whatever the device's memory held before.
  std::uint64_t at = kRegionStart;
  for (const auto& [first, last] : used) {
    if (first > at) std::memset(static_cast<std::byte*>(to.data) + (at - kRegionStart), 0, first - at);
    at = std::max(at, last);
  }
  return arena->freeze();
}

}  // namespace

DeviceMemory::DeviceMemory(const array::Schema& schema, const Runtime& runtime, const exchange::WaitFunction& wait)
    : runtime_(runtime), wait_(wait), has_views_(has_views(schema)) {}

std::optional<array::RecordBatch> DeviceMemory::place(const array::RecordBatch& batch, std::uint64_t* copied,
                                                      std::int64_t* bitmaps) {
  if (has_views_) return std::nullopt;
  const auto context = context_of(batch);
  if (!context) return std::nullopt;
  exchange::BatchCopy copy = plan_copy(batch, runtime_, false);
  if (copy.normal()) {
    if (auto there = in_arenas(copy, batch.device)) return there;
    return copied_to(context, std::move(copy), copied);
  }
  exchange::BatchCopy to_host = plan_copy(batch, runtime_);
  const std::shared_ptr<std::byte[]> memory(new std::byte[to_host.bytes()]);
  const array::RecordBatch here = session::copied_to(std::move(to_host), memory.get(), memory, wait_, copied, bitmaps);
  return copied_to(context, {here, false, context, copy.queue()}, copied);
}

std::optional<array::BufferView> DeviceMemory::place(const array::Tensor& tensor, bool* as_it_lies,
                                                     std::uint64_t* copied) {
  const auto context = device::host_reaches(tensor.device.type) ? nullptr : context_of(tensor);
  if (!context) return std::nullopt;
  array::Tensor from = tensor;
  if (*as_it_lies) {
    const std::int64_t size = array::byte_range(tensor, "a tensor to publish").highest;
    if (auto arena = find_given(tensor.data, static_cast<std::uint64_t>(size), tensor.device)) {
      wait_until_ready(&from);
      take(std::move(arena));
      return array::BufferView{tensor.data, size};
    }
    // Copied as bytes, so that it keeps its strides: one run.
    from.type = {.code = array::TypeCode::kUInt, .bits = 8};
    from.extents = array::Extents(1);
    from.extents.shape()[0] = size;
    from.extents.strides()[0] = 1;
  }
  array::Tensor to = exchange::empty(from.type, from.shape(), own_arena(context), context->make_queue());
  to = exchange::transfer_into(to, from, nullptr, *runtime_.drivers(), wait_);
  wait_until_ready(&to);
  *copied += static_cast<std::uint64_t>(from.nbytes());
  return array::BufferView{to.data, from.nbytes()};
}

// Returns the context in which a peer could open the memory; null if there is none.
std::shared_ptr<device::Context> DeviceMemory::context_of(const device::Memory& memory) const {
  // A peer opens memory in its device's usual context.
  if (memory.native_context != nullptr) return nullptr;
  auto context = runtime_.drivers()->context_or_null(memory.device);
  if (!context || context->device() != memory.device || context->identity().empty()) return nullptr;
  return context;
}

// Returns the producer's arena that these bytes lie in, at a place that consumers can use; null if there is none.
std::shared_ptr<device::DeviceArena> DeviceMemory::find_given(const void* pointer, std::uint64_t size,
                                                              const device::Device& device) const {
  if (reinterpret_cast<std::uintptr_t>(pointer) % kBufferAlignment != 0) return nullptr;  // consumers rely on it
  auto arena = runtime_.find_device_arena(pointer, size);
  if (!arena || arena->context()->device() != device) return nullptr;
  if (arena->frozen()) fail_published_arena();
  return arena;
}

// Makes a producer's arena one of this table's.
void DeviceMemory::take(std::shared_ptr<device::DeviceArena> arena) {
  if (std::ranges::find(given_, arena) == given_.end()) given_.push_back(std::move(arena));
}

const std::shared_ptr<device::DeviceArena>& DeviceMemory::own_arena(const std::shared_ptr<device::Context>& context) {
  const auto known = std::ranges::find(own_, context, [](const auto& arena) { return arena->context(); });
  return known != own_.end() ? *known : own_.emplace_back(std::make_shared<device::DeviceArena>(context));
}

std::optional<array::RecordBatch> DeviceMemory::in_arenas(exchange::BatchCopy& copy, const device::Device& device) {
  std::vector<std::shared_ptr<device::DeviceArena>> found;
  auto batch = copy.in_place([&](const void* pointer, std::uint64_t size) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(pointer) % kBufferAlignment == 0;
    const auto is_there = [&](const auto& arena) { return arena->contains(pointer, size); };
    if (aligned && std::ranges::any_of(found, is_there)) return true;
    auto arena = find_given(pointer, size, device);
    if (!arena) return false;
    found.push_back(std::move(arena));
    return true;
  });
  if (!batch) return batch;
  wait_until_ready(&*batch);
  for (auto& arena : found) take(std::move(arena));
  return batch;
}

array::RecordBatch DeviceMemory::copied_to(const std::shared_ptr<device::Context>& context, exchange::BatchCopy copy,
                                           std::uint64_t* copied) {
  array::RecordBatch made = std::move(copy).into(own_arena(context));
  wait_until_ready(&made);
  *copied += static_cast<std::uint64_t>(made.nbytes());
  return made;
}

template <class Array>
void DeviceMemory::wait_until_ready(Array* array) const {
  exchange::wait_for(*array, *runtime_.drivers(), wait_);
  exchange::forget_work(array);
}

std::shared_ptr<const device::Region> DeviceMemory::find(const void* pointer, std::uint64_t size) const noexcept {
  for (const auto* arenas : {&own_, &given_}) {
    for (const auto& arena : *arenas) {
      if (auto region = arena->region_of(pointer, size)) return region;
    }
  }
  return nullptr;
}

bool DeviceMemory::freeze() noexcept {
  for (const auto& arena : given_) arena->freeze();
  return !given_.empty();
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
  out->version = table.version;
  out->bytes = table.bytes;

  std::vector<std::vector<Range>> used(out->regions.size());  // of each region
  for (const dissociated::RemoteBuffer& buffer : out->buffers) {
    if (buffer.length == 0) continue;
    const std::uint64_t at = device::address_offset(buffer.address);
    used[device::address_region(buffer.address)].emplace_back(at, at + buffer.length);
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (out->regions[i]->kind() != device::RegionKind::kDevice || used[i].empty()) continue;
    std::ranges::sort(used[i]);
    out->regions[i] = host_copy_of(*out->regions[i], used[i], &out->bytes_copied);
  }
  return out;
}

}  // namespace crossdock::session
