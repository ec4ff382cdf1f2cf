#include "stream_connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "records.h"
#include "socket_options.h"

namespace crossdock::transport::net {
namespace {

constexpr std::uint32_t kInput = EPOLLIN | EPOLLRDHUP;

UniqueFd poll_for(int socket, const std::string& where) {
  UniqueFd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll) throw_errno(errno, "making a descriptor to wait on for " + where);
  epoll_event event{.events = kInput, .data = {}};
  if (::epoll_ctl(poll.get(), EPOLL_CTL_ADD, socket, &event) != 0)
    throw_errno(errno, "watching the connection to " + where);
  return poll;
}

Agreement agreement_of(const Introduction& introduction, const StreamNames& names) {
  Agreement agreement = introduction.agreement;
  agreement.error_messages = introduction.both(kFeatureErrorMessages);
  agreement.counted_leases = introduction.both(kFeatureCountedLeases);
  agreement.cancel = introduction.both(kFeatureCancel);
  agreement.parameters = introduction.both(kFeatureParameters);
  agreement.checksums = use_checksums(introduction.own_features, introduction.peer_features);
  agreement.same_user = false;
  if (agreement.carrier.empty()) agreement.carrier = names.scheme;
  return agreement;
}

Checksums checksums_of(const Agreement& agreement) noexcept {
  return agreement.checksums ? Checksums::kEach : Checksums::kNone;
}

}  // namespace

StreamConnection::StreamConnection(std::shared_ptr<SocketStream> stream, const Introduction& introduction,
                                   const StreamLimits& limits, const StreamNames& names)
    : agreement_(agreement_of(introduction, names)),
      send_limit_(std::min(limits.max_message, introduction.peer_max_message)),
      body_limit_(introduction.peer_max_body),
      where_(agreement_.peer),
      names_(names),
      stream_(std::move(stream)),
      socket_(stream_->get()),
      poll_(poll_for(socket_, where_)),
      writer_(*stream_, limits.queue_bytes, checksums_of(agreement_), stream_->touches_memory()),
      reader_(*stream_, *this,
              {.max_message = introduction.max_message,
               .max_body = limits.max_body,
               .body_memory = pool_,
               .checksums = checksums_of(agreement_),
               .kinds = limits.kinds,
               .options = names.options},
              where_, stream_->holds_input()),
      watched_(kInput) {}

StreamConnection::~StreamConnection() { finish(true); }

void StreamConnection::finish(bool goodbye) noexcept {
  if (fork_.in_child()) return;  // the parent continues: the child only closes inherited descriptors
  if (finished_.exchange(true)) return;
  try {
    if (goodbye) writer_.goodbye();
  } catch (const std::exception&) {
    // There is no peer left to tell.
  }
  stream_->finish();
  shut_down(socket_);
}

std::optional<Link> StreamConnection::take_link() noexcept {
  if (fork_.in_child() || gone()) return std::nullopt;
  try {
    if (writer_.pending() && !writer_.push()) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  epoll_event event{.events = EPOLLRDHUP, .data = {}};
  if (writer_.ended() || ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, socket_, &event) != 0) return std::nullopt;
  if (finished_.exchange(true)) return std::nullopt;
  return Link{std::move(stream_), std::move(poll_)};
}

// --- the sending half ---

void StreamConnection::check_usable() const {
  fork_.check(names_.connection);
  if (gone()) throw_gone();
}

bool StreamConnection::send_message(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  fork_.check(names_.connection);
  if (head.size() > send_limit_ || tail.size() > send_limit_ - head.size()) {
    corked_ = false;
    throw InvalidArgumentError("a message of " + std::to_string(head.size()) + " + " + std::to_string(tail.size()) +
                               " bytes is over the limit of " + std::to_string(send_limit_) + " bytes agreed with " +
                               where_ + "; raise " + names_.options +
                               "::max_message at both ends, or max_request where the peer listens");
  }
  return send_frame(kind, tag, head, tail);
}

bool StreamConnection::send_frame(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  const bool corked = std::exchange(corked_, false);  // reset even if this throws: it is for this message only
  if (gone()) throw_gone();
  const bool sent = writer_.send(kind, tag, head, tail, corked);
  if (!corked || !sent) after_sending();
  return sent;
}

void StreamConnection::check_body(std::uint64_t size) const {
  if (size <= body_limit_) return;
  throw InvalidArgumentError("a body of " + std::to_string(size) + " bytes is over the limit of " +
                             std::to_string(body_limit_) + " bytes of " + where_ + "; raise " + names_.options +
                             "::max_body there");
}

bool StreamConnection::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  fork_.check(names_.connection);
  std::uint64_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  check_body(size);
  if (gone()) throw_gone();
  const bool sent = writer_.send_body(tag, parts, size, std::move(keep));
  after_sending();
  return sent;
}

/// Throws once nothing can be sent any more. If another thread sleeps on the descriptor, that thread must send the
/// rest.
void StreamConnection::after_sending() {
  if (writer_.ended()) throw_gone();
  if (!writer_.pending()) return;
  wake_sleeper();
}

void StreamConnection::wake_sleeper() {
  const std::lock_guard lock(interest_mutex_);
  if (asleep_) set_interest(true);  // there is room in the socket, or will be: then the descriptor is readable
}

void StreamConnection::watch(int descriptor) {
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw_errno(errno, "watching the connection to " + where_);
  }
}

void StreamConnection::throw_gone() const {
  if (writer_.source_lost()) {
    throw FileChangedError("a body that is being sent to " + where_ +
                           " can't be read any more: its file was truncated; replace files as a whole, or serve them "
                           "with stable=\"snapshot\"");
  }
  throw ConnectionError(where_ + (goodbye_.load(std::memory_order_relaxed)
                                      ? " has closed the connection"
                                      : " is gone: it has exited or was killed, or the network lost it"));
}

bool StreamConnection::flush() {
  fork_.check(names_.connection);
  if (!writer_.pending()) {
    if (writer_.ended()) throw_gone();
    return true;
  }
  const bool done = writer_.push();
  after_sending();
  return done;
}

std::size_t StreamConnection::in_flight() {
  flush();
  return window_.in_flight(writer_.sent());
}

bool StreamConnection::below_window(std::size_t window) {
  if (window == 0) throw InvalidArgumentError("a window must be at least 1 message");
  if (gone()) throw_gone();
  flush();
  const bool below = window_.below(window, writer_.sent());
  writer_.window(window, !below);
  return below;
}

// --- the receiving half ---

std::optional<Incoming> StreamConnection::receive() {
  fork_.check(names_.connection);
  if (failure_) throw_error(failure_->first, failure_->second);
  try {
    return take();
  } catch (const Error& error) {
    failure_.emplace(error.code(), error.what());  // an error is permanent
    throw;
  }
}

std::optional<Incoming> StreamConnection::take() {
  begin_turn();
  std::optional<Incoming> message = next_of_stream();
  if (message) {
    count(*message);
    return message;
  }
  if (stream_ended()) throw_end(false);
  if (stream_drained()) acknowledge(true);
  return std::nullopt;
}

void StreamConnection::begin_turn() {
  writer_.forget_refusals();
  if (std::exchange(window_told_, false)) window_.forget_opened();
  if (writer_.pending()) writer_.push();
}

void StreamConnection::count(const Incoming& message) { acknowledge(acknowledgements_.count(message.bytes.size())); }

/// Tells the peer what was taken: now, or together with the next frame that is sent anyway.
void StreamConnection::acknowledge(bool now) {
  if (!acknowledgements_.owed()) return;
  writer_.taken(acknowledgements_.taken(), now);
  if (now) acknowledgements_.acknowledged();
}

void StreamConnection::taken(std::uint64_t messages) { window_.taken(messages, writer_.sent(), where_); }

void StreamConnection::window(std::uint64_t messages) { acknowledge(acknowledgements_.set_window(messages, where_)); }

void StreamConnection::goodbye() {
  goodbye_.store(true, std::memory_order_relaxed);
  gone_.store(true, std::memory_order_relaxed);
}

// The reader passes no such frames to a transport that has none.
void StreamConnection::beside(FrameKind, std::uint64_t, ByteSpan) {}

void StreamConnection::throw_end(bool in_body) {
  gone_.store(true, std::memory_order_relaxed);
  const int error = reader_.ended() ? reader_.ended()->error : 0;
  std::string what = where_;
  if (goodbye_.load(std::memory_order_relaxed)) {
    what += " has closed the connection";
  } else if (error == 0 || error == ECONNRESET || error == EPIPE || error == ENOTCONN) {
    what += " is gone: it has exited or was killed";
  } else {
    what += " can't be reached any more: " + std::generic_category().message(error);
  }
  if (in_body || reader_.in_message()) what += ", in the middle of a message";
  throw ConnectionError(what);
}

bool hung_up(const SocketStream& stream, int wait_ms) noexcept {
  pollfd ask{stream.get(), POLLRDHUP, 0};
  return ::poll(&ask, 1, wait_ms) > 0;
}

void send_goodbye(Link& link) noexcept {
  try {
    FrameWriter(*link.stream, 0, Checksums::kNone).goodbye();
  } catch (const std::exception&) {
    // There is no peer left to tell.
  }
}

// --- waiting ---

/// Checks everything that needs no system call.
bool StreamConnection::news() const noexcept {
  if (window_.opened()) window_told_ = true;
  return writer_.room_came() || window_told_ || failure_.has_value() || (takes_input() && reader_.has_more()) ||
         writer_.has_more() || writer_.ended() || has_other_news();
}

bool StreamConnection::readable() const {
  fork_.check(names_.connection);
  if (news()) return true;
  const int input = takes_input() ? POLLIN : 0;
  const int output = writer_.pending() ? POLLOUT : 0;
  pollfd ask{socket_, static_cast<short>(POLLRDHUP | input | output), 0};
  return ::poll(&ask, 1, 0) > 0;
}

bool StreamConnection::prepare_sleep() {
  fork_.check(names_.connection);
  if (!failure_) {
    if (writer_.pending()) writer_.push();
    acknowledge(true);
  }
  if (news()) return false;
  if (takes_input() && !reader_.drained() && StreamConnection::readable()) return false;
  const std::lock_guard lock(interest_mutex_);
  // Checked under the lock: a sender that leaves bytes pending from now on sees that this thread sleeps.
  asleep_ = true;
  set_interest(writer_.pending());
  return true;
}

/// Sets whether the descriptor becomes readable once the socket has room. The caller holds interest_mutex_.
void StreamConnection::set_interest(bool output) {
  const std::uint32_t events =
      EPOLLRDHUP | (takes_input() ? std::uint32_t{EPOLLIN} : 0) | (output ? std::uint32_t{EPOLLOUT} : 0);
  if (watched_ == events) return;
  epoll_event event{.events = events, .data = {}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, socket_, &event) != 0) {
    throw_errno(errno, "waiting for room in the connection to " + where_);
  }
  watched_ = events;
}

void StreamConnection::wake() {
  fork_.check(names_.connection);
  const std::lock_guard lock(interest_mutex_);
  asleep_ = false;
}

}  // namespace crossdock::transport::net
