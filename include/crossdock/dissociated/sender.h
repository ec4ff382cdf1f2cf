#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/dissociated/lease_ledger.h"
#include "crossdock/dissociated/wire.h"

namespace crossdock::dissociated {

/// What a client said that it can do beyond the text of the specification; a client that follows the text strictly says
/// nothing.
struct PeerFeatures {
  bool error_messages = false;  ///< It knows message type 255.
  bool counted_leases = false;  ///< It frees each pair as often as it was sent: FreeRule::kCounted, else kAsSpecified.
  bool cancel = false;          ///< It may end a stream before its end, see Sender::on_untagged().
};

/// The server's side of one connection ("Server Sequence"): numbers messages, keeps leases, checks what the client
/// sends. Pure: no sockets, clocks or threads. One thread at a time.
///
///   idle --want_data--> streaming --end_of_stream()/error()--> idle (leases may be open)
class CROSSDOCK_EXPORT Sender {
 public:
  /// `free_data` is absent where the URI offers none: then leases end with the connection only. Throws
  /// InvalidArgumentError if the two tags are the same.
  Sender(std::uint64_t want_data, std::optional<std::uint64_t> free_data, PeerFeatures peer = {});

  /// Bounds the work of one on_tagged() or free_more(): addresses looked at, and leases ended.
  static constexpr std::size_t kStepsPerCall = 1024;

  enum class Action : std::uint8_t { kWantData, kFreed };
  /// A tagged message of the client. kWantData: `body` is the ticket, and the stream begins: the next prefix is number
  /// 0. kFreed: holders whose leases ended were appended to `*freed` (a free_data message may name no address at all);
  /// while freeing(), addresses of the message are left for free_more(), which must come before the next message.
  /// Throws ProtocolError (unknown tag, want_data while a stream is under way, a free_data body that isn't a multiple
  /// of 8 bytes, an address that isn't lent): then end this connection and no other.
  Action on_tagged(std::uint64_t tag, ByteSpan body, std::vector<std::uint64_t>* freed);

  /// Whether addresses of the last free_data message are left.
  bool freeing() const noexcept { return n_freed_ < addresses_.size(); }
  /// Goes on with the last free_data message; throws as on_tagged() does.
  void free_more(std::vector<std::uint64_t>* freed);

  /// An untagged message of the client, which can only be a cancel: an End of Stream message, whose number means
  /// nothing. True: the stream under way is to be ended, by error(). False: it has ended already, the two crossed.
  /// Throws ProtocolError for anything else, and unless the peer said that it cancels.
  bool on_untagged(ByteSpan message) const;

  // The four below throw std::logic_error where no stream is under way.

  /// The prefix of the next IPC message. The stream's first message must be its schema.
  PrefixBytes next_message();
  /// The tag of the body that belongs to the message begun last.
  std::uint64_t body_tag(BodyType type) const;
  /// The whole End of Stream message. Back to idle.
  PrefixBytes end_of_stream();
  /// The whole error message (type 255), or empty if the peer doesn't know them: then close the connection. Back to
  /// idle. A reason over kMaxErrorReason bytes is cut between characters; what isn't UTF-8 in it becomes '?'.
  std::vector<std::byte> error(std::string_view reason);

  bool streaming() const noexcept { return streaming_; }
  LeaseLedger& leases() noexcept { return leases_; }
  const LeaseLedger& leases() const noexcept { return leases_; }

  /// For tests of the roll-over: the number that the next message gets.
  void set_next_sequence(std::uint32_t sequence) noexcept { next_ = sequence; }

 private:
  void check_streaming(const char* what) const;
  void end_stream() noexcept;

  std::uint64_t want_data_;
  std::optional<std::uint64_t> free_data_;
  PeerFeatures peer_;
  bool streaming_ = false;
  std::uint32_t next_ = 0;
  LeaseLedger leases_;
  std::vector<std::uint64_t> addresses_;  // of the last free_data message
  std::size_t n_freed_ = 0;               // of them
};

}  // namespace crossdock::dissociated
