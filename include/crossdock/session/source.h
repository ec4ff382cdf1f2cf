#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"

namespace crossdock::session {

/// How far a served file may be relied on; it can't be sealed.
enum class Stability : std::uint8_t {
  /// Its descriptor is passed: no copy. Whoever can write the file can change what readers see; size and
  /// modification time are checked at every hand-over. Consumers that are another user get a snapshot.
  kTrust,
  /// One copy into sealed memory when it is published.
  kSnapshot,
};

struct SourceAccess;  // src/session: takes a source apart

/// What is published under a name. A value that is given to Server::publish once.
class CROSSDOCK_EXPORT Source {
 public:
  enum class Kind : std::uint8_t { kTable, kLive, kFactory, kFile };

  /// All batches of `stream`, read when it is published, on the publishing thread; every consumer gets the same memory.
  /// Batches whose memory is an Arena's cost no copy: publishing takes the arena over and freezes it. Others are copied
  /// once.
  static Source table(std::unique_ptr<array::BatchStream> stream);
  /// A one-shot stream: the first consumer gets it, batch by batch as it comes, through recycled memory; a second one
  /// gets ConsumedError. It is read, and dropped, on the server's own threads: by one at a time, not always the
  /// same.
  static Source live(std::unique_ptr<array::BatchStream> stream);
  /// A fresh stream for each consumer. `make` is called, and its streams are read and dropped, on the server's
  /// own threads: each stream by one at a time, not always the same.
  static Source factory(std::function<std::unique_ptr<array::BatchStream>()> make);
  /// An Arrow IPC file or stream file. One whose bodies are compressed, or of a big-endian writer, is decoded once into
  /// sealed memory when it is published, whatever `stability` says; ServerStats count that as a copy.
  static Source file(std::string path, Stability stability = Stability::kTrust);

  Kind kind() const noexcept { return kind_; }

 private:
  friend struct SourceAccess;
  Source() = default;
  Kind kind_ = Kind::kTable;
  std::unique_ptr<array::BatchStream> stream_;
  std::function<std::unique_ptr<array::BatchStream>()> make_;
  std::string path_;
  Stability stability_ = Stability::kTrust;
};

}  // namespace crossdock::session
