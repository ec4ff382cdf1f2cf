#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/dissociated/lease_ledger.h"
#include "crossdock/dissociated/wire.h"

namespace crossdock::dissociated {

/// The server's side of one connection ("Server Sequence"): numbers messages, keeps leases, judges what the client sends. Pure: no
/// sockets, clocks or threads. One thread at a time.
///
///   idle --want_data--> streaming --end_of_stream()/error()--> idle (leases may be open)
class CROSSDOCK_EXPORT Sender {
 public:
  Sender(std::uint64_t want_data, std::uint64_t free_data, bool peer_knows_errors);

  enum class Event : std::uint8_t { kWantData, kFreed };
  /// A tagged message of the client. kWantData: `body` is the ticket, and the stream begins: the next prefix is number 0.
  /// kFreed: holders whose leases ended were appended to `*freed`. Throws ProtocolError (unknown tag, want_data while a stream is under way, a free_data body
  /// that isn't a multiple of 8 bytes, an address never lent): then end this connection and no other.
  Event on_tagged(std::uint64_t tag, ByteSpan body, std::vector<std::uint64_t>* freed);

  /// The prefix of the next IPC message. The stream's first message must be its schema.
  PrefixBytes next_message();
  /// The tag of the body that belongs to the message begun last.
  std::uint64_t body_tag(BodyType type) const noexcept;
  /// The whole End of Stream message. Back to idle.
  PrefixBytes end_of_stream();
  /// The whole error message (type 255), or empty if the peer doesn't know them: then close the connection. Back to idle.
  std::vector<std::byte> error(std::string_view reason);

  bool streaming() const noexcept { return streaming_; }
  LeaseLedger& leases() noexcept { return leases_; }
  const LeaseLedger& leases() const noexcept { return leases_; }

  /// For tests of the roll-over: the number that the next message gets.
  void set_next_sequence(std::uint32_t sequence) noexcept { next_ = sequence; }

 private:
  std::uint64_t want_data_;
  std::uint64_t free_data_;
  bool peer_knows_errors_;
  bool streaming_ = false;
  std::uint32_t next_ = 0;
  LeaseLedger leases_;
  std::vector<std::uint64_t> addresses_;  // scratch
};

}  // namespace crossdock::dissociated
