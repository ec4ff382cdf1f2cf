#include "session/buffer_placer.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/private_memory.h"
#include "device/region_address.h"
#include "session/copy_elements.h"
#include "session/source_batch.h"

namespace crossdock::session {

BufferPlacer::BufferPlacer(const Runtime& runtime, TableBuilder& builder, const exchange::WaitFunction& wait)
    : runtime_(runtime), builder_(builder), wait_(wait), device_memory_(*builder.table().schema, runtime, wait) {}

// Returns memory in an arena of this table's own.
std::byte* BufferPlacer::allocate(std::uint64_t size) {
  if (!own_) arenas_.push_back(own_ = std::make_shared<device::Arena>());
  return own_->allocate(size);
}

array::RecordBatch BufferPlacer::from_device(const array::RecordBatch& batch, std::int64_t* bitmap_bytes) {
  if (auto there = device_memory_.place(batch, &builder_.table().bytes_copied, bitmap_bytes)) return *std::move(there);
  exchange::BatchCopy copy = plan_copy(batch, runtime_);
  std::byte* const memory = allocate(copy.bytes());
  return copied_to(std::move(copy), memory, own_, wait_, &builder_.table().bytes_copied, bitmap_bytes);
}

array::BufferView BufferPlacer::place_tensor(const array::Tensor& tensor, bool* as_it_lies) {
  if (tensor.size() == 0) return {};
  if (device::host_reaches(tensor.device.type) && *as_it_lies) {
    if (!tensor.ready()) exchange::wait_for(tensor, *runtime_.drivers(), wait_);
    return {tensor.data, array::byte_range(tensor, "a tensor to publish").highest};
  }
  if (const auto there = device_memory_.place(tensor, as_it_lies, &builder_.table().bytes_copied)) return *there;
  *as_it_lies = false;
  array::Tensor here;
  here.type = tensor.type;
  here.extents = tensor.extents;
  array::set_row_major(&here, "a tensor to publish");
  here.data = allocate(static_cast<std::uint64_t>(tensor.nbytes()));
  here.owner = own_;
  copy_elements(here, tensor, runtime_, wait_);
  builder_.table().bytes_copied += static_cast<std::uint64_t>(tensor.nbytes());
  return {here.data, tensor.nbytes()};
}

std::uint64_t BufferPlacer::place(const array::BufferView& buffer) {
  const auto size = static_cast<std::uint64_t>(buffer.size);
  if (const auto region = device_memory_.find(buffer.data, size)) {
    const std::uint32_t index = builder_.region_index(region);
    if (index >= kFirstArena) throw ResourceError("a table can't be in more than 16,384 regions of a device's memory");
    return device::make_address(
        static_cast<std::uint16_t>(index),
        static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer.data) - region->data()));
  }
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    if (arenas_[i]->contains(buffer.data, size)) return inside(i, buffer.data);
  }
  if (auto arena = runtime_.find_arena(buffer.data, size)) {
    if (arena->frozen()) fail_published_arena();
    arenas_.push_back(std::move(arena));
    return inside(arenas_.size() - 1, buffer.data);
  }
  if (const auto lent = lend(buffer.data, size)) return *lent;
  if (const auto passed = pass_on(buffer.data, size)) return *passed;
  if (!writer_) writer_.emplace("crossdock-table");
  builder_.table().bytes_copied += size;
  return device::make_address(kCopied, writer_->append({static_cast<const std::byte*>(buffer.data), size}));
}

dissociated::RemoteBuffer BufferPlacer::place_whole(const array::BufferView& buffer) {
  if (buffer.size == 0) return {};
  return {place(buffer), static_cast<std::uint64_t>(buffer.size)};
}

bool BufferPlacer::in_shared_memory(const array::RecordBatch& batch) const {
  return std::ranges::any_of(batch.buffers, [&](const array::BufferView& buffer) {
    const auto size = static_cast<std::uint64_t>(buffer.size);
    return size > 0 && (runtime_.find_arena(buffer.data, size) || runtime_.find_pool(buffer.data, size) ||
                        device::in_private_memory(buffer.data, size));
  });
}

void BufferPlacer::keep(const std::shared_ptr<const void>& owner) {
  if (std::exchange(passed_on_, false)) builder_.table().received.push_back(owner);
}

void BufferPlacer::finish() {
  std::vector<std::uint16_t> index_of_arena;
  for (auto& arena : arenas_) {
    const auto region = arena->freeze();
    index_of_arena.push_back(static_cast<std::uint16_t>(builder_.region_index(region)));
  }
  std::uint16_t index_of_copy = 0;
  if (writer_) index_of_copy = static_cast<std::uint16_t>(builder_.region_index(writer_->freeze()));
  for (dissociated::RemoteBuffer& buffer : builder_.table().buffers) {
    if (buffer.length == 0) continue;
    const std::uint16_t provisional = device::address_region(buffer.address);
    const std::uint64_t offset = device::address_offset(buffer.address);
    if (provisional < kFirstArena) continue;  // a region of a device: its index is known already
    if (provisional == kCopied) {
      buffer.address = device::make_address(index_of_copy, offset);
    } else {
      const std::size_t arena = provisional - kFirstArena;
      buffer.address = device::make_address(index_of_arena[arena], offset);
    }
  }
  const bool on_device = device_memory_.freeze();
  if (on_device || arenas_.size() > (own_ ? 1 : 0)) {
    builder_.table().kind = "arena";
  } else if (lent_) {
    builder_.table().kind = "pool";
  } else if (!builder_.table().received.empty()) {
    builder_.table().kind = "received";
  }
}

// Returns the local address of memory that a pool lends, or nothing: then copy it.
std::optional<std::uint64_t> BufferPlacer::lend(const void* pointer, std::uint64_t size) {
  const auto pool = runtime_.find_pool(pointer, size);
  if (!pool || builder_.table().regions.size() >= kFirstArena) return std::nullopt;
  try {
    const auto lease = pool->lend(pointer, size);
    if (!lease) return std::nullopt;
    lent_ = true;
    return device::make_address(static_cast<std::uint16_t>(builder_.region_index(lease->region)), lease->offset);
  } catch (const ResourceError&) {  // no mappings are left, for example: a copy needs none
    return std::nullopt;
  }
}

// Returns the local address of memory that was received, and that nobody has written to, or nothing: then copy it.
std::optional<std::uint64_t> BufferPlacer::pass_on(const void* pointer, std::uint64_t size) {
  if (builder_.table().regions.size() >= kFirstArena) return std::nullopt;
  const auto received = device::received_memory(pointer, size);
  if (!received) return std::nullopt;
  passed_on_ = true;
  return device::make_address(static_cast<std::uint16_t>(builder_.region_index(received->region)), received->offset);
}

std::uint64_t BufferPlacer::inside(std::size_t arena, const void* pointer) const {
  if (arena >= kCopied - kFirstArena) throw ResourceError("a table can't be in more than 49,151 arenas");
  return device::make_address(static_cast<std::uint16_t>(kFirstArena + arena), arenas_[arena]->offset_of(pointer));
}

}  // namespace crossdock::session
