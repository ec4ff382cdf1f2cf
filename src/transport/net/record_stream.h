#pragma once

#include <cstddef>
#include <vector>

#include "byte_stream.h"
#include "records.h"

/// The records of the handshake, over a stream of bytes.
namespace crossdock::transport::net {

/// Reads a record that arrives in parts. Never reads a byte beyond its end.
class RecordReader {
 public:
  enum class State : std::uint8_t { kRecord, kNothing, kEnd, kForeign };
  /// Continues to read, without waiting. kForeign: the bytes aren't a record of this protocol. Throws SystemError.
  State read(ByteStream& stream);
  /// The record, once it is complete; valid until next().
  ByteSpan record() const noexcept { return {bytes_.data(), bytes_.size()}; }
  const Preamble& preamble() const noexcept { return preamble_; }
  /// After kForeign: whether the bytes begin as a client of TLS does.
  bool is_tls() const noexcept;
  /// Moves the record out, and prepares for the next one.
  std::vector<std::byte> next() noexcept;

 private:
  std::vector<std::byte> bytes_;
  std::size_t have_ = 0;
  Preamble preamble_;
};

/// Sends a whole record on a socket with nothing else in its send buffer, so there is room for it. Returns false if the
/// peer has disconnected.
bool send_record(ByteStream& stream, ByteSpan record);

}  // namespace crossdock::transport::net
