#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/fork.h"
#include "crossdock/peers/peer.h"
#include "peers/regions_with_peer.h"
#include "peers/shared_frames.h"
#include "peers/wire.h"
#include "session/waker.h"
#include "transport/transport.h"

namespace crossdock::peers {

/// The most regions of its peer that a link maps at once.
std::uint32_t regions_taken(const PeerOptions& options) noexcept;

/// What all links of a hub use.
struct LinkServices {
  std::shared_ptr<session::Waker> waker;
  /// Has a task run on a thread that may take long, never on the caller's. Throws ClosedError, ResourceError.
  std::function<void(std::function<void()>)> copy;
  FrameSharer sharer;
};

/// One end of a connection, and the state of the protocol on it: docs/reference/protocol-peers.md. The users' threads
/// put messages into the outbox and take them from the inbox; the hub's I/O thread does everything with the connection;
/// a copy thread gets messages ready.
///
/// Owners: the hub while the connection is under way, the Peer, and each received frame in memory of the peer.
class Link : public std::enable_shared_from_this<Link> {
 public:
  /// `place` is held as long as the connection is open.
  Link(std::unique_ptr<transport::Connection> connection, const PeerOptions& options,
       std::shared_ptr<LinkServices> services, std::shared_ptr<const void> place = nullptr);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- for users, on any thread ---
  bool send(std::span<const OutgoingFrame> frames, ByteSpan meta, Done done);
  std::optional<Message> try_recv();
  void when_readable(Notify notify);
  void close(Done done);
  void abort() noexcept;
  bool closed() const noexcept;
  Peer::Stats stats() const;
  const transport::Agreement& agreement() const noexcept { return agreement_; }
  /// Once open: whether large frames go by address, and the peer's version of Crossdock.
  bool shares() const noexcept { return shares_; }
  const std::string& version() const noexcept { return open_.software; }
  bool in_child() const noexcept { return fork_.in_child(); }
  // --- for the I/O thread ---
  transport::Connection& connection() noexcept { return *connection_; }
  session::ConnectionWaker& waker() noexcept { return waker_; }
  /// Makes progress with everything. Returns true if there was any: then call it again. Throws nothing.
  bool turn() noexcept;
  /// Whether the peer has said what it accepts: then the link can be used.
  bool open() const noexcept { return opened_; }
  /// The connection has ended, or it carries nothing any more: call forget().
  bool over() const noexcept { return over_; }
  /// Whether it waits for the announcement of a region, which an event of the connection's descriptor tells, and takes
  /// no other messages before.
  bool waits_for_region() const noexcept { return waiting_.has_value(); }
  /// The last call of the I/O thread. Closes the connection, at once or with the last frame that is held: this tells
  /// the peer that this end reads nothing of it any more.
  void forget() noexcept;
  /// When turn() must be called at the latest, ms of the coarse clock; 0: no limit.
  std::int64_t deadline_ms() const noexcept;
  /// Ends the link with an error of this end's.
  void fail(std::exception_ptr reason) noexcept { end(std::move(reason), false); }
  /// Returns the error that ended the link, or null.
  std::exception_ptr failure() const;

  /// What the hub notes for a link.
  struct Slot {
    static constexpr std::size_t kAsleep = ~std::size_t{0};
    std::size_t place = kAsleep;   ///< In the list of links that are awake.
    bool ready = true;             ///< Its turn may make progress.
    std::int64_t last_busy = 0;    ///< ns
    std::int64_t opens_until = 0;  ///< ms: the peer must have sent OPEN by then; 0: it has, or may take any time.
    std::function<void(const std::shared_ptr<Link>&)> opened{};  ///< Called once it is open, or over.
  } slot;

 private:
  struct Outgoing;
  struct BodyKeeper;
  struct FrameLease;
  struct Arrived {
    Message message;
    std::uint64_t bytes = 0;  // that it counts for in the window
  };
  /// A message whose regions may not have been announced yet.
  struct Waiting {
    transport::Incoming incoming;
    wire::Body body;          // in the bytes of `incoming`
    std::size_t known = 0;    // the regions of so many frames are known
    std::int64_t since = -1;  // ms; -1: it hasn't waited
  };
  /// What closes the connection when it is destroyed, which must happen without the lock.
  struct Closing {
    std::unique_ptr<transport::Connection> connection;
    std::shared_ptr<const void> place;
  };
  /// Calls to make, and objects to destroy, without the lock.
  struct Calls {
    std::vector<std::pair<Done, std::exception_ptr>> over;
    std::vector<Notify> notify;
    std::deque<std::shared_ptr<Outgoing>> dropped;
    void run() noexcept;
  };

  bool too_large(const Outgoing& message) const;
  std::uint64_t small_bytes(const Outgoing& message) const noexcept;
  bool shares_small(std::uint64_t small) const noexcept;
  void make_ready_here(Outgoing& message) const;
  void prepare_all() noexcept;
  void prepare(Outgoing& message) const noexcept;
  void check_usable() const;
  bool readable() const noexcept;

  bool receive_some();
  void receive_control(ByteSpan message);
  void opened_by(const wire::Open& open);
  void receive_body(const Waiting& whole);
  bool regions_known(Waiting& message);
  bool send_open();
  bool send_return();
  bool send_messages(Calls* calls);
  enum class Sent : std::uint8_t { kSent, kNoRoom, kTooLarge };
  Sent send_message(const std::shared_ptr<Outgoing>& message);
  void drop_places();
  void take_back_places(const Outgoing& message);
  void frame_released(std::uint32_t region) noexcept;
  bool send_end(Calls* calls);
  void end(std::exception_ptr reason, bool peer_gone) noexcept;
  void drop_outbox(const std::exception_ptr& reason, Calls* calls) noexcept;
  void end_close(Calls* calls) noexcept;
  void collect_sent(Calls* calls);
  void values_sent(Outgoing& message) noexcept;
  bool return_due() const noexcept;
  void check_closing(bool closing, bool aborted, std::int64_t since);
  Closing take_connection() noexcept;

  const ForkGuard fork_;
  const PeerOptions options_;
  const std::uint32_t max_regions_;  // of the peer's, here
  const std::shared_ptr<LinkServices> services_;
  std::unique_ptr<transport::Connection> connection_;  // of the I/O thread until forget(), then guarded by mutex_
  const transport::Agreement agreement_;
  std::shared_ptr<const void> place_;  // goes with the connection
  session::ConnectionWaker waker_;

  // Of the I/O thread:
  bool open_sent_ = false;
  bool end_sent_ = false;
  bool peer_ended_ = false;
  wire::Open open_;  // the peer's; constant once opened_ is set
  RegionsWithPeer regions_;
  std::uint64_t sent_messages_ = 0;
  std::uint64_t sent_bytes_ = 0;  // as they count for the window; also the next three
  std::uint64_t peer_took_messages_ = 0;
  std::uint64_t peer_took_bytes_ = 0;
  std::uint64_t received_messages_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::shared_ptr<Outgoing> placing_;  // the message whose frames have addresses, though there was no room to send it
  std::optional<Waiting> waiting_;
  std::uint64_t progress_pushed_ = 0;  // of the connection, and
  std::uint64_t progress_took_ = 0;    // of the peer's messages, at
  std::int64_t progress_ms_ = 0;       // the last progress of close()
  std::int64_t closing_until_ = 0;     // ms: the peer must have made progress by then; 0: it needn't

  std::atomic<bool> opened_{false};
  std::atomic<bool> shares_{false};
  std::atomic<bool> over_{false};

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Outgoing>> outbox_;
  std::vector<std::shared_ptr<Outgoing>> in_place_;  // being sent from the user's memory
  bool preparing_ = false;                           // a copy thread works for this link
  std::deque<Arrived> inbox_;
  Notify notify_;
  std::exception_ptr failure_;  // of receiving, once the inbox is empty, and of sending
  bool closing_ = false;        // close() or abort() was called
  bool aborted_ = false;
  std::int64_t closing_since_ = 0;    // ms
  std::exception_ptr close_failure_;  // what each close() that waits gets
  std::vector<Done> close_done_;      // of each close() that waits
  bool close_over_ = false;           // what was sent before close() is on its way
  /// Frames in a region of the peer.
  struct FramesOf {
    std::uint64_t held = 0;
    std::uint32_t released = 0;         // and the peer wasn't told
    FramesOf* next_released = nullptr;  // in the list of those of which some were
    std::uint32_t region = 0;
  };
  void frame_held(std::uint32_t region);
  void frame_dropped(FramesOf& frames) noexcept;
  std::map<std::uint32_t, FramesOf> frames_of_;  // by the region's number
  FramesOf* first_released_ = nullptr;
  std::uint64_t frames_held_ = 0;   // in all
  std::uint64_t regions_held_ = 0;  // of these
  bool forgotten_ = false;
  std::uint64_t taken_messages_ = 0;
  std::uint64_t taken_bytes_ = 0;
  std::uint64_t told_messages_ = 0;  // of these, as the peer was told
  std::uint64_t told_bytes_ = 0;
  Peer::Stats stats_;
};

}  // namespace crossdock::peers
