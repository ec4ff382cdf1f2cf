#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "dissociated/lease_ledger.h"
#include "dissociated/wire.h"

namespace crossdock::dissociated {

/// Features beyond the specification that a client has announced. A client that follows the specification strictly
/// announces none.
struct PeerFeatures {
  bool error_messages = false;  ///< It knows message type 255.
  bool counted_leases = false;  ///< It frees each pair as often as it was sent: FreeRule::kCounted, else kAsSpecified.
  bool cancel = false;          ///< It may end a stream before its end, see Sender::on_untagged().
};

/// The server's side of one connection ("Server Sequence"): numbers messages, keeps leases, and checks the client's
/// messages. Pure: no sockets, clocks or threads. Use it from one thread at a time.
///
///   idle --want_data--> streaming --end_of_stream()/error()--> idle (leases may be open)
class Sender {
 public:
  /// `free_data` is absent if the URI has none: then leases only end with the connection. Throws InvalidArgumentError
  /// if the two tags are equal.
  Sender(std::uint64_t want_data, std::optional<std::uint64_t> free_data, PeerFeatures peer = {});

  /// Bounds the work of one on_tagged() or free_more(): the addresses looked at, and the leases ended.
  static constexpr std::size_t kStepsPerCall = 1024;

  enum class Action : std::uint8_t { kWantData, kFreed };
  /// Takes a tagged message of the client. kWantData: `body` is the ticket, and a stream begins; its next prefix has
  /// number 0. kFreed: the leases that ended were appended to `*freed` (a free_data message may even contain
  /// no address). While freeing(), some addresses of the message remain for free_more(), which must be called before
  /// the next message is taken. Throws ProtocolError (unknown tag, want_data while a stream is under way, a free_data
  /// body that isn't a multiple of 8 bytes, an address that isn't lent): then end this connection only.
  Action on_tagged(std::uint64_t tag, ByteSpan body, std::vector<Freed>* freed);

  /// Returns whether addresses of the last free_data message remain to be freed.
  bool freeing() const noexcept { return n_freed_ < addresses_.size(); }
  /// Continues with the last free_data message. Throws the errors of on_tagged().
  void free_more(std::vector<Freed>* freed);

  /// Takes an untagged message of the client. It can only be a cancel: an End of Stream message whose number has no
  /// meaning. Returns true if the stream under way must be ended, by error(). Returns false if it has already ended:
  /// its end and the cancel crossed. Throws ProtocolError for any other message, and if the peer hasn't announced the
  /// cancel feature.
  bool on_untagged(ByteSpan message) const;

  // The four functions below throw std::logic_error if no stream is under way.

  /// Returns the prefix of the next IPC message. The stream's first message must be its schema.
  PrefixBytes next_message() {
    check_streaming("next_message");
    return write_prefix(MessageType::kMetadata, next_++);
  }
  /// Returns the tag of the body that belongs to the last message begun.
  std::uint64_t body_tag(BodyType type) const {
    check_streaming("body_tag");
    return write_tag(next_ - 1, type);
  }
  /// Returns the whole End of Stream message. The state is idle afterwards.
  PrefixBytes end_of_stream();
  /// Returns the whole error message (type 255). Returns nothing if the peer doesn't know error messages: then close
  /// the connection. The state is idle afterwards. A reason over kMaxErrorReason bytes is cut between characters; bytes
  /// that aren't UTF-8 are replaced by '?'.
  std::vector<std::byte> error(std::string_view reason);

  bool streaming() const noexcept { return streaming_; }
  LeaseLedger& leases() noexcept { return leases_; }
  const LeaseLedger& leases() const noexcept { return leases_; }

  /// For tests of the roll-over: sets the number of the next message.
  void set_next_sequence(std::uint32_t sequence) noexcept { next_ = sequence; }

 private:
  void check_streaming(const char* what) const {
    if (!streaming_) [[unlikely]]
      fail_not_streaming(what);
  }
  [[noreturn]] static void fail_not_streaming(const char* what);
  void end_stream() noexcept;

  std::uint64_t want_data_;
  std::optional<std::uint64_t> free_data_;
  PeerFeatures peer_;
  bool streaming_ = false;
  std::uint32_t next_ = 0;
  LeaseLedger leases_;
  std::vector<std::uint64_t> addresses_;  // of the last free_data message
  std::size_t n_freed_ = 0;               // number of these that are finished
};

}  // namespace crossdock::dissociated
