#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "byte_stream.h"
#include "transport/net/handshake.h"
#include "transport/tcp.h"

/// Parts of the handshake that both ends share.
namespace crossdock::transport::tcp {

using namespace net;  // NOLINT(google-build-using-namespace): what tcp shares with other transports

inline constexpr HandshakeNames kNames = {
    .options = "TcpOptions", .client_role = "crossdock tcp 1 client", .server_role = "crossdock tcp 1 server"};

/// The features that this end offers in a handshake.
std::uint64_t own_features(const TcpOptions& options) noexcept;
/// Whether frames have checksums between two ends that offered these features.
bool use_checksums(std::uint64_t own, std::uint64_t peer) noexcept;

/// Reads a record that arrives in parts. Never reads a byte beyond its end.
class RecordReader {
 public:
  enum class State : std::uint8_t { kRecord, kNothing, kEnd, kForeign };
  /// Continues to read, without waiting. kForeign: the bytes aren't a record of this protocol. Throws SystemError.
  State read(ByteStream& stream);
  /// The record, once it is complete; valid until next().
  ByteSpan record() const noexcept { return {bytes_.data(), bytes_.size()}; }
  const Preamble& preamble() const noexcept { return preamble_; }
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

}  // namespace crossdock::transport::tcp
