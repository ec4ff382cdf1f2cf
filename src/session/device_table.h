#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "device/region.h"
#include "exchange/batch_copy.h"

namespace crossdock::session {

struct PublishedTable;

/// Memory of devices for the batches of one table, in a few regions that other processes can open. Used by one thread
/// at a time.
class DeviceMemory {
 public:
  /// For the batches of one stream, of this schema.
  DeviceMemory(const array::Schema& schema, const Runtime& runtime, const exchange::WaitFunction& wait);

  /// Copies a batch of a device, without its dictionaries, to memory of the same device: one copy by its driver, which
  /// is over on return. A batch that only the host can bring into normal form goes through the host, which is two
  /// copies more. Adds the bytes of all copies to `*copied`, and those of shifted bitmaps and run ends to `*bitmaps`.
  /// Returns nothing if the batch must stay on the host: the driver can't hand its memory to other processes, or its
  /// schema has views, whose sizes Arrow's device data wants in memory and a message doesn't have there. Throws as
  /// BatchCopy.
  std::optional<array::RecordBatch> copied(const array::RecordBatch& batch, std::uint64_t* copied,
                                           std::int64_t* bitmaps);
  /// Returns the region that these bytes are in; null if there is none.
  std::shared_ptr<const device::Region> find(const void* pointer, std::uint64_t size) const noexcept;

 private:
  struct Slab {
    std::shared_ptr<const device::Region> region;
    std::uint64_t used = 0;
  };
  array::RecordBatch placed(exchange::BatchCopy copy, const std::shared_ptr<device::Context>& context,
                            std::uint64_t* copied);
  device::Buffer allocate(std::uint64_t size, const std::shared_ptr<device::Context>& context,
                          const device::Queue& queue);

  const Runtime& runtime_;
  const exchange::WaitFunction& wait_;
  const bool has_views_;
  std::vector<Slab> slabs_;
  std::uint64_t total_ = 0;
};

/// Returns the same table with its devices' memory copied to the host, for consumers that can't take that memory. Makes
/// one copy of each of these regions, and waits for them. Throws ResourceError and the errors of the driver.
std::shared_ptr<const PublishedTable> host_copy_of(const PublishedTable& table);

}  // namespace crossdock::session
