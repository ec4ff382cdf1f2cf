#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/session/tensors.h"

namespace crossdock::session {

/// How far the content of a published file can be relied on. A file can't be sealed against writes.
enum class Stability : std::uint8_t {
  /// Passes the file's descriptor to consumers: no copy. Every process that can write the file can change what readers
  /// see. Size and modification time are checked each time data is handed over. Consumers of another user get a
  /// snapshot.
  kTrust,
  /// Copies the file once into sealed memory when it is published.
  kSnapshot,
};

/// Data to be published under a name. Each value is given to Server::publish() once.
class CROSSDOCK_EXPORT Source {
 public:
  /// What a source is: read once for all, live, made for each consumer, a file, or tensors.
  enum class Kind : std::uint8_t {
    kTable,    ///< From table().
    kLive,     ///< From live().
    kFactory,  ///< From factory().
    kFile,     ///< From file().
    kTensors,  ///< From tensor() or tensors().
  };

  /// Publishes all batches of `stream`. They are read on the publishing thread when the source is published, and all
  /// consumers get the same memory. Memory of an Arena, and batches in a DeviceArena, are not copied: publishing takes
  /// the arena over and freezes it. Other batches are copied once, from a device's memory too.
  static Source table(std::unique_ptr<array::BatchStream> stream);
  /// Publishes one batch in the same way.
  static Source table(array::RecordBatch batch);
  /// Publishes several batches in the same way. Throws InvalidArgumentError for none, and InvalidDataError if they have
  /// different schemas or device types.
  static Source table(std::vector<array::RecordBatch> batches);
  /// Publishes a stream that can be read once. The first consumer gets it, batch by batch as batches arrive, through
  /// recycled memory; a second one gets ConsumedError. The stream is read, and destroyed, on the server's own threads:
  /// on one at a time, but not always the same one.
  static Source live(std::unique_ptr<array::BatchStream> stream);
  /// Makes a new stream for each consumer. `make` is called on the server's own threads, which also read and destroy
  /// its streams: each stream on one thread at a time, but not always the same one.
  static Source factory(std::function<std::unique_ptr<array::BatchStream>()> make);
  /// Publishes an Arrow IPC file or stream file. A file with compressed bodies, or of a big-endian writer, is decoded
  /// once into sealed memory when it is published, whatever `stability` says; ServerStats count that as a copy.
  static Source file(std::string path, Stability stability = Stability::kTrust);

  /// Publishes one tensor, on any device, for Client::tensor(). Its elements are read when the source is published. In
  /// an Arena, a DeviceArena or a Pool they are not copied, as a table's batches aren't, if they lie without gaps, in
  /// any order of dimensions. Others are copied once: as they lie, or, where there are gaps or negative strides between
  /// them, in C order.
  static Source tensor(array::Tensor tensor);
  /// Publishes several tensors under one name, for Client::tensors(). Their paths all differ, none is empty, and none
  /// is the beginning of another.
  static Source tensors(std::vector<NamedTensor> tensors);

  /// Returns what the source was made as. It doesn't change.
  Kind kind() const noexcept { return kind_; }

 private:
  friend class Catalog;  // src/session: publishes sources
  Source() = default;
  Kind kind_ = Kind::kTable;
  std::unique_ptr<array::BatchStream> stream_;
  std::function<std::unique_ptr<array::BatchStream>()> make_;
  std::string path_;
  std::vector<NamedTensor> tensors_;
  Stability stability_ = Stability::kTrust;
};

}  // namespace crossdock::session
