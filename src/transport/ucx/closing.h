#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "crossdock/core/error.h"
#include "offered_memory.h"
#include "transport/internal/accept_poll.h"

namespace crossdock::transport::ucx {

/// Whether an error of receiving says that the peer is gone or broke the rules. Any other is of this end alone: the
/// peer may be sending still.
bool is_of_peer(ErrorCode code) noexcept;

/// An end of a connection that this process has closed. It lives on until the peer has what was sent: to close an
/// endpoint by force loses messages, and UCX's own orderly close can't be cut short.
class ClosingEnd {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongest{1000};  ///< Then it is closed by force.

  /// What ends it, besides the peer's goodbye, its death, and kLongest.
  enum class Until : std::uint8_t {
    kSent,      ///< The network has every message, and none of the peer's has arrived in part.
    kTaken,     ///< The peer has acknowledged every message.
    kFlushed,   ///< The peer's UCX has every message: for a peer that knows no control messages.
    kLeft,      ///< Nothing else: the peer may still read or write memory of this end. It is told that this end closes.
    kPeerGone,  ///< Nothing else: the peer is to close the connection.
  };

  /// The peer may read `offered` until the end. `sent` messages were sent, and the peer has taken `taken` of
  /// them. Sends a goodbye, unless `until` is kPeerGone or kFlushed. `peer_left`: the peer has said goodbye. It is
  /// answered once nothing of this end's is on its way: until then the peer stays, to receive it.
  ClosingEnd(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint, Until until,
             std::shared_ptr<const OfferedMemory> offered = nullptr, std::uint64_t sent = 0, std::uint64_t taken = 0,
             bool peer_left = false);

  /// Makes progress, and drops what arrives. Returns whether it is time to destroy this.
  bool over() noexcept;
  /// Prepares descriptor() to be waited for. Returns false if there is something to do already.
  bool arm() { return worker_->arm(takes_no_more_ || !may_take()); }
  int descriptor() const noexcept { return worker_->descriptor(); }
  Clock::time_point deadline() const noexcept { return deadline_; }

 private:
  bool step();
  bool may_take() const noexcept { return offered_ == nullptr || offered_->has_room(); }
  std::optional<Received> take();
  bool flushed();

  std::shared_ptr<const OfferedMemory> offered_;  // may be null
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<Endpoint> endpoint_;  // destroyed first
  Until until_;
  std::uint64_t sent_;
  std::uint64_t taken_;
  bool goodbye_sent_;
  bool peer_left_;
  bool flushing_ = false;
  bool takes_no_more_ = false;  // after an error of this end's own, the worker drops what arrives
  Clock::time_point deadline_ = Clock::now() + kLongest;
};

/// An end in a list, which may move to another list without memory being taken.
struct ListedEnd {
  std::unique_ptr<ClosingEnd> end;
  bool news = false;  ///< Set by an AcceptPoll that watches it. Nobody asks: over() looks for itself.
};

/// Waits until all of these are over(), and destroys each.
void wait_for_all(std::list<ListedEnd> ends) noexcept;

/// The closing ends of one listener, which does their work. Only add() is thread-safe.
class ClosingEnds {
 public:
  static constexpr std::size_t kMost = 256;  ///< The oldest is closed by force for a new one.

  /// `wake` wakes the thread that calls advance(). It is called by any thread, until stop().
  explicit ClosingEnds(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// Passes an end on. Returns false after stop(): then the caller has it still.
  bool add(std::unique_ptr<ClosingEnd>& end);

  /// Makes progress, and destroys those that are over. Watches the others in `poll`. One that the system refuses to
  /// watch is looked at in later calls, until its deadline.
  void advance(AcceptPoll& poll);
  /// Prepares the descriptors to be waited for. Returns false if there is something to do already.
  bool arm();
  std::optional<ClosingEnd::Clock::time_point> deadline() const noexcept;
  /// Accepts no more ends, and waits until those that are left are over.
  void stop(const AcceptPoll& poll) noexcept;

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::list<ListedEnd> added_;  // since the last advance()
  std::list<ListedEnd> watched_;
};

}  // namespace crossdock::transport::ucx
