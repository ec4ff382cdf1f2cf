#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/source.h"
#include "crossdock/session/tensors.h"
#include "device/region.h"
#include "dissociated/wire.h"
#include "ipc/metadata.h"

namespace crossdock::session {

class BatchStatisticsCache;

/// Which dictionary a message has.
struct DictionaryMark {
  std::int64_t id = -1;  ///< -1: the message has none.
  bool is_delta = false;
};

/// One message of a published table, encoded once for all consumers. Addresses in its body are local: their top 16 bits
/// hold the region's index within the table. When a connection sends the message, it replaces the index by its own
/// number for the region.
struct PublishedMessage {
  std::uint64_t metadata_offset;
  std::uint32_t metadata_size;
  std::uint32_t n_buffers;
  std::uint64_t first_buffer;
  std::int64_t rows;    ///< 0 for a dictionary.
  std::uint64_t bytes;  ///< Sum of the buffers.
  bool has_body;
  bool unpadded;  ///< Its body has one buffer, and ends with it: a body by value has no padding.
  DictionaryMark dictionary;
};

/// A table that can be sent any number of times. Immutable and shared by connections; its regions live until the last
/// of these is dropped.
struct PublishedTable {
  std::shared_ptr<const array::Schema> schema;
  std::vector<PublishedMessage> messages;  ///< The schema first.
  std::vector<std::byte> metadata;
  std::vector<dissociated::RemoteBuffer> buffers;
  std::vector<std::shared_ptr<const device::Region>> regions;
  std::vector<std::shared_ptr<const void>> received;  ///< Keeps the leases of batches that are passed on.
  const char* kind = "table";
  std::int64_t rows = 0;      ///< -1: it has tensors.
  std::int64_t version = -1;  ///< That its schema's message says; -1: it says none.
  std::uint64_t bytes = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t bitmap_bytes_copied = 0;

  // Used by the server's I/O thread only, see FileLeases and BatchStatisticsCache:
  mutable int readers = 0;        ///< Streams that are under way, or of which the consumer still holds memory.
  mutable bool breaking = false;  ///< Another process waits to write one of its files.
  mutable std::shared_ptr<BatchStatisticsCache> batch_statistics;  ///< Null until some are asked for.
  /// Returns the regions as memory that this process can read, for bodies by value. Memory that this process has only
  /// written is mapped at the first request. Throws ResourceError.
  const std::vector<std::shared_ptr<const device::Region>>& readable_regions() const;

  /// Whether any of it is in memory of a device.
  bool on_device() const noexcept { return device() != device::Device{}; }
  /// The device that its batches are on.
  device::Device device() const noexcept;

  ByteSpan metadata_of(const PublishedMessage& message) const noexcept {
    return ByteSpan(metadata).subspan(message.metadata_offset, message.metadata_size);
  }
  std::span<const dissociated::RemoteBuffer> buffers_of(const PublishedMessage& message) const noexcept {
    return std::span(buffers).subspan(message.first_buffer, message.n_buffers);
  }

 private:
  mutable std::vector<std::shared_ptr<const device::Region>> readable_;
};

/// Adds messages to a table under construction.
class TableBuilder {
 public:
  /// `version`: PublishedTable::version.
  explicit TableBuilder(std::shared_ptr<const array::Schema> schema, std::int64_t version = -1);
  /// Adds a message. The metadata is copied; consecutive messages with equal metadata share its bytes. `buffers` hold
  /// local addresses.
  void add(ByteSpan metadata, bool has_body, std::span<const dissociated::RemoteBuffer> buffers, std::int64_t rows,
           DictionaryMark dictionary = {});
  /// Returns the local index of a region.
  std::uint32_t region_index(const std::shared_ptr<const device::Region>& region);
  PublishedTable& table() noexcept { return *table_; }
  std::shared_ptr<const PublishedTable> finish() { return std::move(table_); }

 private:
  std::shared_ptr<PublishedTable> table_;
};

/// Reads the whole stream. Buffers in an arena of `runtime` stay in their memory, and the arena is frozen; all other
/// buffers are copied once. Waits for devices by `wait`. Throws ArenaFrozenError
/// if such an arena was published before.
std::shared_ptr<const PublishedTable> publish_stream(array::BatchStream& stream, const Runtime& runtime,
                                                     const exchange::WaitFunction& wait, std::int64_t version = -1,
                                                     const char* kind = "table");

/// Publishes tensors: one without a path, or any number with paths. An arena's memory, a pool's, and received memory
/// are passed as publish_stream() does, where the elements lie without gaps, in any order; others are copied once, in C
/// order if there are gaps, overlaps or negative strides between them. Throws InvalidArgumentError for wrong paths,
/// UnsupportedError for masks and for memory without addresses, UnsupportedTypeError as wire_type(), and the errors of
/// publish_stream().
std::shared_ptr<const PublishedTable> publish_tensors(std::span<const NamedTensor> tensors, const Runtime& runtime,
                                                      const exchange::WaitFunction& wait, std::int64_t version = -1);

/// Publishes an Arrow IPC file or stream file: passes its descriptor (kTrust), or copies it once into sealed memory
/// (kSnapshot). A file that can't be passed unchanged, because bodies are compressed or of a big-endian writer, is
/// decoded once into sealed memory, whatever `stability` says.
std::shared_ptr<const PublishedTable> publish_file(const std::string& path, Stability stability, const Runtime& runtime,
                                                   const ipc::Limits& limits, std::int64_t version = -1);

}  // namespace crossdock::session
