#include <algorithm>
#include <optional>
#include <utility>

#include "crossdock/core/error.h"
#include "device/private_memory.h"
#include "device/region_address.h"
#include "session/device_table.h"
#include "session/dictionary_tracker.h"
#include "session/published_table.h"
#include "session/source_batch.h"

namespace crossdock::session {
namespace {

// Finds memory for each buffer that can be passed to consumers: an arena's memory is used directly, and a pool lends
// its memory; other buffers are copied into one region, which is written once. Batches on devices that aren't in an
// arena of their device are copied into one. Where that can't be, they are copied into an arena of the host, because
// their drivers need mapped memory.
class BufferPlacer {
 public:
  BufferPlacer(const Runtime& runtime, TableBuilder& builder, const exchange::WaitFunction& wait)
      : runtime_(runtime), builder_(builder), wait_(wait), device_memory_(*builder.table().schema, runtime, wait) {}

  // Returns a batch on a device in memory that can be published, in normal form: in an arena of that device, where it
  // may be already, or copied to the host.
  array::RecordBatch from_device(const array::RecordBatch& batch, std::int64_t* bitmap_bytes) {
    if (auto there = device_memory_.place(batch, &builder_.table().bytes_copied, bitmap_bytes))
      return *std::move(there);
    exchange::BatchCopy copy = plan_copy(batch, runtime_);
    if (!from_devices_) arenas_.push_back(from_devices_ = std::make_shared<device::Arena>());
    std::byte* const memory = from_devices_->allocate(copy.bytes());
    return copied_to(std::move(copy), memory, from_devices_, wait_, &builder_.table().bytes_copied, bitmap_bytes);
  }

  // Returns a local address. Most regions are known only at the end, so arenas and the copy get their indices in the
  // order in which they are first used.
  std::uint64_t place(const array::BufferView& buffer) {
    const auto size = static_cast<std::uint64_t>(buffer.size);
    if (const auto region = device_memory_.find(buffer.data, size)) {
      const std::uint32_t index = builder_.region_index(region);
      if (index >= kFirstArena)
        throw ResourceError("a table can't be in more than 16,384 regions of a device's memory");
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

  // Whether any buffer of the batch is in an arena or a pool and needs no copy.
  bool in_shared_memory(const array::RecordBatch& batch) const {
    return std::ranges::any_of(batch.buffers, [&](const array::BufferView& buffer) {
      const auto size = static_cast<std::uint64_t>(buffer.size);
      return size > 0 && (runtime_.find_arena(buffer.data, size) || runtime_.find_pool(buffer.data, size) ||
                          device::in_private_memory(buffer.data, size));
    });
  }

  // Keeps the owner of a batch whose memory was passed on since the last call.
  void keep(const std::shared_ptr<const void>& owner) {
    if (std::exchange(passed_on_, false)) builder_.table().received.push_back(owner);
  }

  // Freezes the memory that was used, and converts provisional addresses to local ones.
  void finish() {
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
    if (on_device || arenas_.size() > (from_devices_ ? 1 : 0)) {
      builder_.table().kind = "arena";
    } else if (lent_) {
      builder_.table().kind = "pool";
    } else if (!builder_.table().received.empty()) {
      builder_.table().kind = "received";
    }
  }

 private:
  // Provisional numbers of regions: those below are final.
  static constexpr std::uint16_t kFirstArena = 0x4000;
  static constexpr std::uint16_t kCopied = 0xFFFF;

  // Returns the local address of memory that a pool lends, or nothing: then copy it.
  std::optional<std::uint64_t> lend(const void* pointer, std::uint64_t size) {
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
  std::optional<std::uint64_t> pass_on(const void* pointer, std::uint64_t size) {
    if (builder_.table().regions.size() >= kFirstArena) return std::nullopt;
    const auto received = device::received_memory(pointer, size);
    if (!received) return std::nullopt;
    passed_on_ = true;
    return device::make_address(static_cast<std::uint16_t>(builder_.region_index(received->region)), received->offset);
  }

  std::uint64_t inside(std::size_t arena, const void* pointer) const {
    if (arena >= kCopied - kFirstArena) throw ResourceError("a table can't be in more than 49,151 arenas");
    return device::make_address(static_cast<std::uint16_t>(kFirstArena + arena), arenas_[arena]->offset_of(pointer));
  }

  const Runtime& runtime_;
  TableBuilder& builder_;
  const exchange::WaitFunction& wait_;
  DeviceMemory device_memory_;
  std::vector<std::shared_ptr<device::Arena>> arenas_;
  std::shared_ptr<device::Arena> from_devices_;  // one of these
  std::optional<device::RegionWriter> writer_;
  bool lent_ = false;       // by a pool
  bool passed_on_ = false;  // of the current batch
};

}  // namespace

std::shared_ptr<const PublishedTable> publish_stream(array::BatchStream& stream, const Runtime& runtime,
                                                     const exchange::WaitFunction& wait, const char* kind) {
  TableBuilder builder(stream.schema());
  builder.table().kind = kind;
  BufferPlacer placer(runtime, builder, wait);
  ipc::Encoder encoder;
  DictionaryTracker dictionaries;
  std::vector<dissociated::RemoteBuffer> buffers;
  std::int64_t bitmap_bytes = 0;

  const auto place_all = [&](const array::RecordBatch& batch) {
    buffers.clear();
    for (const array::BufferView& buffer : batch.buffers) {
      if (buffer.size == 0) {
        buffers.push_back({});
      } else {
        buffers.push_back({placer.place(buffer), static_cast<std::uint64_t>(buffer.size)});
      }
    }
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
      builder.add(encoder.dictionary_batch(values, id, false), true, buffers, 0);
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
