#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "device/region.h"
#include "exchange/batch_copy.h"

namespace crossdock::session {

struct PublishedTable;

/// Memory of devices for the batches of one table, in a few regions that other processes can open: the arenas in which
/// its producer built them, and those to which the others are copied. Used by one thread at a time.
class DeviceMemory {
 public:
  /// For the batches of one stream, of this schema.
  DeviceMemory(const array::Schema& schema, const Runtime& runtime, const exchange::WaitFunction& wait);

  /// Returns a batch of a device, without its dictionaries, in memory of the same device that can be handed over, with
  /// nothing pending. If all of it lies in arenas, at multiples of 64 bytes, it stays there, and they belong to this
  /// table. Otherwise makes one copy by the driver, or, of a batch that only the host can bring into normal form, one
  /// through the host, which is two copies more. Adds the bytes of all copies to `*copied`, and those of shifted
  /// bitmaps and run ends to
  /// `*bitmaps`. Returns nothing if the batch must stay on the host: the driver can't hand its memory to other
  /// processes, or its schema has views, whose sizes Arrow's device data wants in memory and a message doesn't have
  /// there. Throws as BatchCopy, and ArenaFrozenError if such an arena was published before.
  std::optional<array::RecordBatch> place(const array::RecordBatch& batch, std::uint64_t* copied,
                                          std::int64_t* bitmaps);
  /// The same for the elements of a tensor on a device. With `as_it_lies` they are the bytes from its first element to
  /// its last, and stay where they are if they lie in an arena; otherwise one copy of them is made. Without it, one
  /// copy of the elements is made, in C order. Sets `*as_it_lies` to false if the result is in C order. Returns nothing
  /// for memory that must be copied to the host. Throws as exchange::transfer_into().
  std::optional<array::BufferView> place(const array::Tensor& tensor, bool* as_it_lies, std::uint64_t* copied);
  /// Returns the region that these bytes are in; null if there is none.
  std::shared_ptr<const device::Region> find(const void* pointer, std::uint64_t size) const noexcept;
  /// Freezes the producer's arenas. Returns whether there are any.
  bool freeze() noexcept;

 private:
  std::shared_ptr<device::Context> context_of(const device::Memory& memory) const;
  std::shared_ptr<device::DeviceArena> find_given(const void* pointer, std::uint64_t size,
                                                  const device::Device& device) const;
  const std::shared_ptr<device::DeviceArena>& own_arena(const std::shared_ptr<device::Context>& context);
  void take(std::shared_ptr<device::DeviceArena> arena);
  std::optional<array::RecordBatch> in_arenas(exchange::BatchCopy& copy, const device::Device& device);
  array::RecordBatch copied_to(const std::shared_ptr<device::Context>& context, exchange::BatchCopy copy,
                               std::uint64_t* copied);
  template <class Array>
  void wait_until_ready(Array* array) const;

  const Runtime& runtime_;
  const exchange::WaitFunction& wait_;
  const bool has_views_;
  std::vector<std::shared_ptr<device::DeviceArena>> own_;    // for copies: one of each context
  std::vector<std::shared_ptr<device::DeviceArena>> given_;  // by the producer
};

/// Returns the same table with its devices' memory copied to the host, for consumers that can't take that memory. Makes
/// one copy of each of these regions, and waits for them. Throws ResourceError and the errors of the driver.
std::shared_ptr<const PublishedTable> host_copy_of(const PublishedTable& table);

}  // namespace crossdock::session
