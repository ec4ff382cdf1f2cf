#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "byte_stream.h"
#include "connection.h"
#include "crossdock/core/unique_fd.h"
#include "packets.h"

/// What both ends do alike until the connection stands.
namespace crossdock::transport::tcp {

/// The features that this end offers in a handshake.
std::uint64_t own_features(const TcpOptions& options) noexcept;
/// Whether frames have checksums between ends that offered these features.
bool use_checksums(std::uint64_t own, std::uint64_t peer) noexcept;

/// A record that comes bit by bit. Never reads a byte beyond it.
class RecordReader {
 public:
  enum class State : std::uint8_t { kRecord, kNothing, kEnd, kForeign };
  /// Reads on, without waiting. kForeign: what comes is no record of ours. Throws SystemError.
  State read(ByteStream& stream);
  /// The record, once it is there; valid until next().
  ByteSpan record() const noexcept { return {bytes_.data(), bytes_.size()}; }
  const Preamble& preamble() const noexcept { return preamble_; }
  /// Gives the record away, and waits for the next.
  std::vector<std::byte> next() noexcept;

 private:
  std::vector<std::byte> bytes_;
  std::size_t have_ = 0;
  Preamble preamble_;
};

/// Sends a record whole, on a socket that holds nothing else: so it has room. False: the peer has gone.
bool send_record(ByteStream& stream, ByteSpan record);

/// What one end knows of the other once the handshake is over.
struct Introduction {
  std::uint64_t own_features = 0;
  std::uint64_t peer_features = 0;
  std::uint64_t max_message = 0;  ///< That this end takes.
  std::uint64_t peer_max_message = 0;
  std::uint64_t peer_max_body = 0;
  ChannelRole role = ChannelRole::kBoth;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  std::string where;
};

std::unique_ptr<TcpConnection> join(UniqueFd socket, const Introduction& introduction, const TcpOptions& options);

}  // namespace crossdock::transport::tcp
