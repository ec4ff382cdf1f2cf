#include "session/relay_link.h"

namespace crossdock::session {
namespace {

/// For this time after a failure to connect, or an answer that didn't come, requests fail without another try, so that
/// each of them doesn't wait until an address that doesn't answer is given up.
constexpr std::chrono::seconds kRetryAfter{1};

}  // namespace

bool is_gone(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kConnection:
    case ErrorCode::kTruncatedStream:
    case ErrorCode::kTimeout:
    case ErrorCode::kClosed:
    case ErrorCode::kUpstream: return true;
    default: return false;
  }
}

RelayLink::RelayLink(std::vector<std::string> uris, ClientOptions options, const transport::InterruptHook& interrupted)
    : uris_(std::move(uris)), options_(std::move(options)), now_(connect(interrupted)) {}

/// Connects to the first upstream that answers.
RelayLink::Connected RelayLink::connect(const transport::InterruptHook& interrupted) const {
  std::string tried;
  for (const std::string& uri : uris_) {
    try {
      return {std::make_shared<Client>(uri, options_, interrupted), uri};
    } catch (const Error& error) {
      const bool not_there = is_gone(error.code()) || error.code() == ErrorCode::kHandshake;  // it may be ending
      if (uris_.size() == 1 || !not_there) throw;
      tried += "\n  " + uri + ": " + error.what();
    }
  }
  throw ConnectionError("none of the relay's upstreams can be reached:" + tried);
}

RelayLink::Connected RelayLink::connected() {
  {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stopped()) throw InterruptedError("the relay was closed");
      if (now_.client) return now_;
      if (failure_ && (connecting_ || Clock::now() - failure_->at < kRetryAfter)) {
        std::rethrow_exception(failure_->error);
      }
      if (!connecting_) break;
      connected_.wait(lock);
    }
    connecting_ = true;
  }
  Connected made;
  std::exception_ptr error;
  try {
    made = connect(stopping());
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  connecting_ = false;
  connected_.notify_all();
  if (error) {
    failure_ = {Clock::now(), error};
    std::rethrow_exception(error);
  }
  failure_.reset();
  now_ = made;
  return made;
}

/// Drops a client whose server is gone. Returns whether it is worth another try, with a new one.
bool RelayLink::take_failure(const Connected& with, ErrorCode code, Slow slow) {
  const bool late = code == ErrorCode::kTimeout;
  const bool lost = code == ErrorCode::kConnection || code == ErrorCode::kTruncatedStream || code == ErrorCode::kClosed;
  if (!lost && !(late && slow == Slow::kServer)) return false;
  Connected dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (now_.client == with.client) {
    std::swap(dropped, now_);
    if (late) failure_ = {Clock::now(), std::current_exception()};
  }
  return lost;
}

std::string RelayLink::uri() const {
  const std::lock_guard lock(mutex_);
  return now_.uri;
}

std::string RelayLink::where() const {
  const std::lock_guard lock(mutex_);
  return now_.client ? now_.uri : uris_.front();
}

}  // namespace crossdock::session
