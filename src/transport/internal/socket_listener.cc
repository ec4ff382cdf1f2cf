#include "transport/internal/socket_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

constexpr int kAcceptsPerTurn = 8;
constexpr std::chrono::milliseconds kBackoff{200};

UniqueFd open_reserve() noexcept { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// Accepts the next client. Empty on failure, with errno set.
UniqueFd accept_at(int listener) noexcept {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace

SocketListener::SocketListener(std::unique_ptr<ServerSocket> socket, const char* what,
                               std::chrono::milliseconds timeout)
    : socket_(std::move(socket)),
      where_(socket_->where()),
      what_(what),
      poll_(socket_->descriptor(), where_),
      reserve_(open_reserve()),
      handshakes_(poll_, timeout,
                  [this](LogLevel level, std::string_view text) { socket_->say(level, std::string(text)); }) {
  if (const ClosingEnds* const closing = socket_->closing()) poll_.watch(closing->descriptor(), &closing_news_);
}

SocketListener::~SocketListener() {
  if (ClosingEnds* const closing = fork_.in_child() ? nullptr : socket_->closing()) closing->stop(poll_);
}

std::unique_ptr<Connection> SocketListener::accept() {
  fork_.check(what_);
  const bool waits = poll_.look();
  // First, because make_room() must not reject a client whose handshake message has already arrived.
  handshakes_.advance();
  if (!handshakes_.has_work() && (backoff_ ? Clock::now() >= *backoff_ : waits)) {
    if (!reserve_) reserve_ = open_reserve();
    for (int i = 0; i < kAcceptsPerTurn && accept_one(); ++i) {
    }
    handshakes_.advance();
    handshakes_.make_room();
  }
  if (handshakes_.empty() && std::exchange(idle_due_, false)) socket_->idle();
  if (ClosingEnds* const closing = socket_->closing()) closing->advance(poll_);
  std::unique_ptr<Connection> connection = complete_oldest();
  await_events();
  return connection;
}

/// Accepts one client from the system's queue. Returns false if there is none, or none can be accepted now.
bool SocketListener::accept_one() {
  if (handshakes_.full()) return false;
  if (const char* const obstacle = socket_->obstacle()) {
    back_off(obstacle);
    return false;
  }
  UniqueFd client = accept_at(socket_->descriptor());
  const int error = client ? 0 : errno;
  if (client || error == EAGAIN) backoff_.reset();
  switch (error) {
    case 0:
      if (auto handshake = begin(std::move(client))) handshakes_.add(std::move(handshake));
      return true;
    case EAGAIN: return false;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH: return true;
    case EMFILE:
    case ENFILE: reject_without_descriptor(); return false;
    default: back_off(std::generic_category().message(error)); return false;
  }
}

/// No descriptors are left, and a client waits. It would stay in the queue, and wake the server again and again. It is
/// accepted with the reserve descriptor and told the reason. If even that descriptor couldn't be used (the limit was
/// lowered, or another thread was faster), the client waits, and the server pauses before the next attempt.
void SocketListener::reject_without_descriptor() {
  reserve_.reset();
  UniqueFd client = accept_at(socket_->descriptor());
  const int error = client ? 0 : errno;
  if (client) {
    if (const auto handshake = begin(std::move(client))) {
      handshakes_.reject(*handshake,
                         {Refusal::kResources, "the server is out of descriptors; raise its limit (ulimit -n)"});
    }
  }
  reserve_ = open_reserve();
  // EAGAIN means that there was no client after all. The system looks for a free descriptor first.
  if (error != 0 && error != EAGAIN) return back_off("it is out of descriptors; raise its limit (ulimit -n)");
  backoff_.reset();
}

/// Returns null if the client was lost.
std::unique_ptr<PendingHandshake> SocketListener::begin(UniqueFd client) {
  try {
    return socket_->begin(std::move(client));
  } catch (const Error& error) {
    socket_->say(LogLevel::kWarning, "a client of " + where_ + " was lost: " + error.what());
    return nullptr;
  }
}

std::unique_ptr<Connection> SocketListener::complete_oldest() {
  const bool ready = handshakes_.has_ready();
  std::unique_ptr<Connection> connection = handshakes_.complete_oldest(reject_all_);
  if (ready && !reject_all_) idle_due_ = connection == nullptr;
  return connection;
}

/// Makes descriptor() readable when the next call of accept() has something to do.
void SocketListener::await_events() {
  handshakes_.prepare_wait();
  ClosingEnds* const closing = socket_->closing();
  std::optional<Clock::time_point> deadline;
  for (const auto& other : {handshakes_.deadline(), backoff_, closing ? closing->deadline() : std::nullopt}) {
    if (other) deadline = std::min(deadline.value_or(*other), *other);
  }
  poll_.set_accepting(!backoff_ && !handshakes_.full());
  poll_.set_deadline(deadline);
  const bool armed = closing == nullptr || closing->arm();
  poll_.set_more(handshakes_.has_work() || (handshakes_.empty() && idle_due_) || !armed);
}

/// Makes new clients wait because of a temporary problem: otherwise they would wake this listener again and again.
void SocketListener::back_off(const std::string& why) {
  if (!backoff_) socket_->say(LogLevel::kError, where_ + " can't accept clients for now: " + why);
  backoff_ = Clock::now() + kBackoff;
}

}  // namespace crossdock::transport
