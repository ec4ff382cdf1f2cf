#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "core/unique_fd.h"
#include "transport/internal/accept_poll.h"

namespace crossdock::transport {

/// An end of a connection that this process has closed, and that lives on until the peer has what was sent. Use it from
/// one thread at a time. Destroying it ends the connection.
class ClosingEnd {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongest{1000};  ///< Then it is destroyed in any case.

  ClosingEnd() = default;
  virtual ~ClosingEnd() = default;
  ClosingEnd(const ClosingEnd&) = delete;
  ClosingEnd& operator=(const ClosingEnd&) = delete;

  /// Makes progress, a bounded amount. Returns whether it is time to destroy this.
  bool over() noexcept;
  /// Prepares descriptor() to be waited for. Returns false if there is something to do already. Throws SystemError.
  virtual bool arm() = 0;
  /// Readable when over() has something to do, after arm() has returned true. The same for the object's whole life.
  virtual int descriptor() const noexcept = 0;
  Clock::time_point deadline() const noexcept { return deadline_; }

 private:
  /// Makes progress. Returns whether the peer has everything, or is gone. After an error there is nothing to wait for.
  virtual bool step() = 0;

  const Clock::time_point deadline_ = Clock::now() + kLongest;
};

/// Waits until all of these are over(), and destroys each.
void wait_for_all(std::list<std::unique_ptr<ClosingEnd>> ends) noexcept;

/// The closing ends of one listener, which does their work. Only add() is thread-safe.
class ClosingEnds {
 public:
  static constexpr std::size_t kMost = 256;  ///< The oldest is destroyed for a new one.

  /// Throws ResourceError, SystemError.
  ClosingEnds();

  /// Passes an end on. Returns false after stop(), or without memory: then the caller has it still.
  bool add(std::unique_ptr<ClosingEnd>& end) noexcept;
  /// Readable when an end was added since the last advance().
  int descriptor() const noexcept { return added_event_.get(); }

  /// Makes progress, and destroys those that are over. Watches the others in `poll`. One that the system refuses to
  /// watch is looked at in later calls, until its deadline.
  void advance(AcceptPoll& poll);
  /// Prepares the descriptors of the others to be waited for. Returns false if there is something to do already.
  bool arm();
  /// The first deadline, at which advance() has something to do.
  std::optional<ClosingEnd::Clock::time_point> deadline() const noexcept;
  /// Accepts no more ends, and waits until those that are left are over.
  void stop(const AcceptPoll& poll) noexcept;

 private:
  struct Watched {
    std::unique_ptr<ClosingEnd> end;
    bool news = false;
  };

  const UniqueFd added_event_;
  std::mutex mutex_;  // guards the next two
  bool stopped_ = false;
  std::list<std::unique_ptr<ClosingEnd>> added_;  // since the last advance()
  std::list<Watched> watched_;
};

}  // namespace crossdock::transport
