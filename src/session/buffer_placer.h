#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/device/arena.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "device/region.h"
#include "session/device_table.h"
#include "session/published_table.h"

namespace crossdock::session {

/// Finds memory for each buffer of a table under construction that can be passed to consumers: an arena's memory is
/// used directly, and a pool lends its memory; other buffers are copied into one region, which is written once. Data on
/// devices that isn't in an arena of its device is copied into one. Where that can't be, it is copied into an arena of
/// the host, because drivers need mapped memory. Used by one thread at a time.
class BufferPlacer {
 public:
  /// `builder`, `runtime` and `wait` must outlive it.
  BufferPlacer(const Runtime& runtime, TableBuilder& builder, const exchange::WaitFunction& wait);

  /// Returns a batch on a device in memory that can be published, in normal form: in an arena of that device, where it
  /// may be already, or copied to the host.
  array::RecordBatch from_device(const array::RecordBatch& batch, std::int64_t* bitmap_bytes);
  /// Returns the memory of a tensor's elements, which can be published: memory of its device, if that can be handed
  /// over, or of the host. With `as_it_lies`, it is the tensor's own where that can be: the bytes from its first
  /// element to its last, which are all its own. Otherwise makes one copy of the elements in C order. `as_it_lies` says
  /// which: it is false on return if they were copied. Nothing is pending on the memory. Throws the errors of the
  /// devices' work, and as exchange::transfer_into().
  array::BufferView place_tensor(const array::Tensor& tensor, bool* as_it_lies);
  /// Returns a local address. Most regions are known only at the end, so arenas and the copy get their indices in the
  /// order in which they are first used.
  std::uint64_t place(const array::BufferView& buffer);
  /// The same for a whole buffer, which may be empty.
  dissociated::RemoteBuffer place_whole(const array::BufferView& buffer);
  /// Whether any buffer of the batch is in an arena or a pool and needs no copy.
  bool in_shared_memory(const array::RecordBatch& batch) const;
  /// Keeps the owner of data whose memory was passed on since the last call.
  void keep(const std::shared_ptr<const void>& owner);
  /// Freezes the memory that was used, and converts provisional addresses to local ones.
  void finish();

 private:
  // Provisional numbers of regions: those below are final.
  static constexpr std::uint16_t kFirstArena = 0x4000;
  static constexpr std::uint16_t kCopied = 0xFFFF;

  std::byte* allocate(std::uint64_t size);
  std::optional<std::uint64_t> lend(const void* pointer, std::uint64_t size);
  std::optional<std::uint64_t> pass_on(const void* pointer, std::uint64_t size);
  std::uint64_t inside(std::size_t arena, const void* pointer) const;

  const Runtime& runtime_;
  TableBuilder& builder_;
  const exchange::WaitFunction& wait_;
  DeviceMemory device_memory_;
  std::vector<std::shared_ptr<device::Arena>> arenas_;
  std::shared_ptr<device::Arena> own_;  // one of these, for copies
  std::optional<device::RegionWriter> writer_;
  bool lent_ = false;       // by a pool
  bool passed_on_ = false;  // since the last keep()
};

}  // namespace crossdock::session
