#include "session/server_connection.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "crossdock/core/error.h"
#include "session/remote_error.h"
#include "session/say.h"

namespace crossdock::session {
namespace {

// What one connection may do before the others get their turn.
constexpr int kMessagesPerTurn = 64;

}  // namespace

ServerConnection::ServerConnection(std::unique_ptr<transport::Connection> connection, const ServerOptions& options,
                                   Open open)
    : connection_(std::move(connection)),
      carries_(connection_->agreement().carries),
      options_(options),
      open_(std::move(open)),
      sender_(connection_->agreement().want_data, connection_->agreement().free_data,
              {.error_messages = connection_->agreement().error_messages,
               .counted_leases = connection_->agreement().counted_leases,
               .cancel = connection_->agreement().cancel}) {
  stats_.pid = connection_->agreement().peer_pid;
  stats_.peer = connection_->agreement().peer;
}

bool ServerConnection::turn(std::int64_t now_ms) {
  deadline_ms_ = 0;
  now_ms_ = now_ms;
  bool progress = take_messages();
  progress |= push_retired();
  progress |= pump(now_ms);
  return progress;
}

bool ServerConnection::take_messages() {
  bool progress = false;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    const std::optional<transport::Incoming> message = connection_->receive();
    if (!message) break;
    progress = true;
    if (!message->tagged) {
      if (sender_.on_untagged(message->bytes)) cancel_stream();
      continue;
    }
    if (carries_ == transport::Carries::kData && message->tag == connection_->agreement().want_data)
      pass_end_of_bodies();
    if (sender_.on_tagged(message->tag, message->bytes, &freed_) == dissociated::Sender::Event::kWantData) {
      start(as_text(message->bytes));
    }
  }
  settle();
  return progress;
}

void ServerConnection::start(std::string_view ticket) {
  // A tail that hasn't gone belongs to the stream before; the client can't have seen its end and asked again.
  if (!tail_.empty())
    throw ProtocolError("the client asked for a stream before it had taken the end of the one before");
  try {
    streams_.push_back({next_stream_id_++, open_(ticket, *connection_), std::string(ticket), {}});
    stats_.name = ticket;
  } catch (const std::exception& reason) {
    fail_stream(reason);
  }
}

// No End of Stream goes over a connection of bodies alone. A client that has the last one (or learnt from the metadata
// that there is none) may ask for the next stream before this end has looked for the end of the one before.
void ServerConnection::pass_end_of_bodies() {
  try {
    while (sender_.streaming()) {
      if (!has_current_) {
        const ServerStream::State state = streams_.back().source->peek(&current_);
        if (state == ServerStream::State::kEnd) {
          sender_.end_of_stream();
          return end_stream({});
        }
        if (state != ServerStream::State::kReady || current_.has_body) return;
        sender_.next_message();
      } else if (current_.has_body) {
        return;
      }
      streams_.back().source->pop();
      has_current_ = false;
    }
  } catch (const Error& reason) {
    fail_stream(reason);
  }
}

void ServerConnection::settle() {
  if (freed_.empty()) return;
  starved_since_ms_ = 0;  // slow it may be, but it gives back
  for (const std::uint64_t holder : freed_) {
    const auto id = static_cast<std::uint32_t>(holder >> 32);
    const auto stream = std::find_if(streams_.rbegin(), streams_.rend(), [&](const Stream& s) { return s.id == id; });
    stream->source->returned(static_cast<std::uint32_t>(holder));
    --stream->outstanding;
  }
  freed_.clear();
  forget_idle_streams();
}

void ServerConnection::forget_idle_streams() {
  for (std::size_t i = 0; i < streams_.size();) {
    Stream& stream = streams_[i];
    if (stream.under_way || stream.outstanding > 0) {
      ++i;
      continue;
    }
    for (const Number& number : stream.numbers) {
      if (!number.known) continue;
      const bool shared = std::ranges::any_of(streams_, [&](const Stream& other) {
        return other.id != stream.id && std::ranges::any_of(other.numbers, [&](const Number& its) {
                 return its.known && its.number == number.number;
               });
      });
      if (shared) continue;
      regions_.remove(number.number);
      if (number.announced) retired_.push_back(number.number);
    }
    streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool ServerConnection::push_retired() {
  bool progress = false;
  while (!retired_.empty() && connection_->retire(retired_.back())) {
    retired_.pop_back();
    progress = true;
  }
  return progress;
}

bool ServerConnection::push_tail() {
  if (tail_.empty()) return true;  // bodies alone: their end is said over the other connection
  if (!connection_->send(tail_, {})) return false;
  tail_.clear();
  return true;
}

bool ServerConnection::pump(std::int64_t now_ms) {
  bool progress = false;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (!tail_.empty()) return push_tail() || progress;
    if (streams_.empty() || !streams_.back().under_way) break;
    if (!has_current_) {
      // A message with a body is two of the transport's.
      if (!connection_->below_window(2 * static_cast<std::size_t>(options_.window))) break;
      ServerStream::State state{};
      try {
        state = streams_.back().source->peek(&current_);
        if (state == ServerStream::State::kStarved) {
          watch_starvation(now_ms);
        } else {
          starved_since_ms_ = 0;
        }
        if (state == ServerStream::State::kReady) check_size();
      } catch (const std::exception& reason) {
        fail_stream(reason);
        progress = true;
        continue;
      }
      // Outside of the above: that the peer has gone is no failure of the source's, and ends the connection.
      if (state == ServerStream::State::kEnd) {
        const dissociated::PrefixBytes end = sender_.end_of_stream();
        // It belongs to the metadata; the end of the bodies is in it.
        if (carries_ == transport::Carries::kData) {
          end_stream({});
        } else {
          end_stream({end.begin(), end.end()});
        }
        progress = true;
        continue;
      }
      if (state != ServerStream::State::kReady) break;
      prefix_ = sender_.next_message();
      has_current_ = true;
      metadata_sent_ = false;
    }
    try {
      if (!send_current()) break;
    } catch (const ResourceError& reason) {
      fail_stream(reason);  // a region that the system doesn't let pass is no fault of the connection's
    }
    progress = true;
  }
  return progress;
}

void ServerConnection::check_size() const {
  if (!current_.by_value) return;
  std::uint64_t size = 0;
  for (const ByteSpan part : current_.parts) size += part.size();
  if (size <= connection_->max_body()) return;
  throw LeaseLimitError("a batch of \"" + stats_.name + "\" has " + std::to_string(size) +
                        " bytes and has to go by value, of which the consumer takes " +
                        std::to_string(connection_->max_body()) +
                        " at once: raise its max_body, or publish smaller batches");
}

bool ServerConnection::announce_regions() {
  Stream& stream = streams_.back();
  remote_.assign(current_.buffers.begin(), current_.buffers.end());
  for (dissociated::RemoteBuffer& buffer : remote_) {
    if (buffer.length == 0) continue;
    const std::uint32_t index = device::address_region(buffer.address);
    if (index >= stream.numbers.size()) stream.numbers.resize(index + 1);
    Number& number = stream.numbers[index];
    if (!number.announced) {
      const auto& region = stream.source->region(index);
      bool is_new = !number.known;
      if (!number.known) {
        number.number = regions_.number_of(region, &is_new);
        number.known = true;
        number.announced = !is_new;
      }
      if (!number.announced) {
        if (!connection_->announce(number.number, *region)) return false;
        number.announced = true;
      }
    }
    buffer.address = device::make_address(number.number, device::address_offset(buffer.address));
  }
  return true;
}

bool ServerConnection::send_current() {
  if (!metadata_sent_) {
    if (!send_metadata()) return false;
    metadata_sent_ = true;
  }
  if (current_.has_body && carries_ != transport::Carries::kMetadata) {
    if (current_.by_value) {
      if (!connection_->send_body(sender_.body_tag(dissociated::BodyType::kPacked), current_.parts, current_.keep)) {
        return false;
      }
      stats_.bytes_by_value += current_.bytes;
    } else if (!send_remote()) {
      return false;
    }
    ++stats_.batches;
    stats_.rows += static_cast<std::uint64_t>(current_.rows);
    stats_.bytes += current_.bytes;
  }
  streams_.back().source->pop();
  has_current_ = false;
  current_ = {};
  return true;
}

bool ServerConnection::send_metadata() {
  // Before the metadata, so that it can be met by whoever looks for the body at once.
  if (current_.has_body && !current_.by_value && carries_ != transport::Carries::kMetadata) {
    if (!announce_regions()) return false;
    body_.clear();
    dissociated::write_remote_body(remote_, &body_);
  }
  if (carries_ == transport::Carries::kData) return true;
  if (current_.has_body && carries_ == transport::Carries::kBoth) connection_->hold();
  return connection_->send(prefix_, current_.metadata);
}

bool ServerConnection::send_remote() {
  if (!connection_->send_tagged(sender_.body_tag(dissociated::BodyType::kRemote), body_, {})) return false;
  Stream& stream = streams_.back();
  const std::size_t before = sender_.leases().outstanding();
  sender_.leases().lend(remote_, (static_cast<std::uint64_t>(stream.id) << 32) | current_.slot, now_ms_);
  stream.outstanding += sender_.leases().outstanding() - before;
  return true;
}

void ServerConnection::end_stream(std::vector<std::byte> tail) {
  has_current_ = false;
  current_ = {};                                                       // what it keeps may be a batch of the source's
  connection_->below_window(std::numeric_limits<std::size_t>::max());  // nobody waits for it any more
  starved_since_ms_ = 0;
  stats_.name.clear();
  tail_ = std::move(tail);
  if (!streams_.empty() && std::exchange(streams_.back().under_way, false)) streams_.back().source->over();
  push_tail();
  forget_idle_streams();
  push_retired();
}

void ServerConnection::fail_stream(const std::exception& reason) {
  say(options_.log, LogLevel::kWarning,
      [&] { return "the stream \"" + stats_.name + "\" to " + stats_.peer + " ends: " + to_remote_text(reason); });
  std::vector<std::byte> message = sender_.error(to_remote_text(reason));
  // A peer that doesn't know error messages sees the connection close.
  if (message.empty()) throw ConnectionError(std::string("ending the connection: ") + reason.what());
  end_stream(std::move(message));
}

// The consumer has asked for it: that needs no line in the log.
void ServerConnection::cancel_stream() {
  std::vector<std::byte> message =
      sender_.error(to_remote_text(ClosedError("the stream was cancelled by its consumer")));
  if (message.empty()) throw ConnectionError("the client cancels streams, but knows no error messages");
  end_stream(std::move(message));
}

// A consumer that took all there was and gives nothing back will not: it keeps the stream whole, and what else it wants
// goes into its own memory.
void ServerConnection::watch_starvation(std::int64_t now_ms) {
  if (options_.lease_patience_ms < 0) return;
  if (connection_->in_flight() > 0) {  // it may well give back what it hasn't even taken: look again
    starved_since_ms_ = 0;
    deadline_ms_ = now_ms + std::max(options_.lease_patience_ms, 1);
    return;
  }
  if (starved_since_ms_ == 0) starved_since_ms_ = now_ms;
  deadline_ms_ = starved_since_ms_ + options_.lease_patience_ms;
  if (now_ms < deadline_ms_) return;
  streams_.back().source->pass_by_value();
}

void ServerConnection::say_goodbye(const std::exception& reason) noexcept {
  try {
    if (!streams_.empty() && streams_.back().under_way) fail_stream(reason);
    connection_->flush();
  } catch (const std::exception&) {
    // It is going away in any case.
  }
}

ConsumerStats ServerConnection::stats(std::int64_t now_ms) {
  ConsumerStats stats = stats_;
  stats.window = options_.window;
  stats.in_flight = connection_->in_flight();
  stats.leases = sender_.leases().outstanding();
  stats.leased_bytes = sender_.leases().outstanding_bytes();
  if (const auto oldest = sender_.leases().oldest_ms()) stats.oldest_lease_ms = now_ms - *oldest;
  return stats;
}

}  // namespace crossdock::session
