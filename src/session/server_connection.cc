#include "session/server_connection.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <limits>
#include <utility>

#include "core/clock.h"
#include "core/milliseconds.h"
#include "core/release.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "flight/ticket.h"
#include "session/remote_error.h"
#include "session/say.h"
#include "session/table_name.h"

namespace crossdock::session {
namespace {

// Approximate costs of work, in nanoseconds.
constexpr std::uint64_t kPerMessage = 500;
constexpr std::uint64_t kPerSlice = 10'000;  // of a long free_data message
constexpr std::uint64_t kPerBuffer = 50;
constexpr std::uint64_t kPerRetirement = 100;
constexpr std::uint64_t kBytesPerUnit = 4;

// Messages that are read of a connection that ends: more than a ring holds of those that free something.
constexpr int kMostLastMessages = 1 << 16;

bool is_one_of(const std::exception& reason, std::initializer_list<ErrorCode> codes) {
  const auto* const ours = dynamic_cast<const Error*>(&reason);
  return ours != nullptr && std::find(codes.begin(), codes.end(), ours->code()) != codes.end();
}

// Whether a request was refused for an ordinary reason: a misspelled name, a stream that another client got, a client
// that holds too much or requests something that doesn't exist. Then the client receives the error, and the server has
// nothing to repair.
bool is_ordinary_refusal(const std::exception& reason) {
  return is_one_of(reason, {ErrorCode::kNotFound, ErrorCode::kConsumed, ErrorCode::kLeaseLimit, ErrorCode::kUnsupported,
                            ErrorCode::kClosed});
}

}  // namespace

ServerConnection::ServerConnection(std::unique_ptr<transport::Connection> connection, const ServerOptions& options,
                                   std::shared_ptr<Consumer> consumer, Open open)
    : connection_(std::move(connection)),
      role_(connection_->agreement().role),
      options_(options),
      consumer_(std::move(consumer)),
      open_(std::move(open)),
      sender_(std::make_shared<dissociated::Sender>(
          connection_->agreement().want_data, connection_->agreement().free_data,
          dissociated::PeerFeatures{.error_messages = connection_->agreement().error_messages,
                                    .counted_leases = connection_->agreement().counted_leases,
                                    .cancel = connection_->agreement().cancel})) {
  stats_.pid = connection_->agreement().peer_pid;
  stats_.peer = connection_->agreement().peer;
  stats_.carrier = connection_->agreement().carrier;
}

ServerConnection::~ServerConnection() {
  take_last_frees();
  for (const auto& [id, stream] : streams_) {
    if (stream.outstanding > 0) stream.source->lost();
  }
  // Destroying the records of a million leases takes tens of milliseconds. Another thread does it, so that other
  // connections don't wait for it.
  const std::uint64_t memory = sender_->leases().memory();
  release_memory(std::move(sender_), memory);
}

bool ServerConnection::turn(std::int64_t now_ms, TurnBudget& budget) {
  deadline_ms_ = 0;
  now_ms_ = now_ms;
  waits_for_source_ = false;
  bool progress = take_messages(budget);
  progress |= push_retired(budget);
  // A number that was retired may be announced again only after its retirement was sent.
  if (retired_.empty()) progress |= pump(now_ms, budget);
  if (untimed_ > 0) time_batches(budget.now());
  return progress;
}

// Counts bytes that the connection has sent meanwhile: every call of it may send waiting bytes.
void ServerConnection::count_pushed(TurnBudget& budget) noexcept {
  const std::uint64_t pushed = connection_->pushed();
  budget.spend((pushed - std::exchange(pushed_, pushed)) / kBytesPerUnit);
}

bool ServerConnection::take_messages(TurnBudget& budget) {
  bool progress = false;
  while (budget.left()) {
    if (sender_->freeing()) {
      sender_->free_more(&freed_);
      budget.spend(kPerSlice);
    } else {
      const std::optional<transport::Incoming> message = connection_->receive();
      count_pushed(budget);
      if (!message) break;
      take(*message);
      budget.spend(kPerMessage + message->bytes.size() / kBytesPerUnit);
    }
    progress = true;
    apply_frees();
  }
  return progress;
}

void ServerConnection::take(const transport::Incoming& message) {
  if (!message.tagged) {
    if (sender_->on_untagged(message.bytes)) cancel_stream();
    return;
  }
  if (role_ == ChannelRole::kData && message.tag == connection_->agreement().want_data) pass_end_of_bodies();
  if (sender_->on_tagged(message.tag, message.bytes, &freed_) == dissociated::Sender::Action::kWantData) {
    start(message.bytes);
  }
}

void ServerConnection::start(ByteSpan bytes) {
  // A tail that hasn't been sent belongs to the previous stream. The client can't have seen the end of that stream
  // before its new request.
  if (!tail_.empty())
    throw ProtocolError("the client requested a stream before it received the end of the previous one");
  try {
    const bool parameters = connection_->agreement().parameters;
    const dissociated::Request request =
        parameters ? dissociated::parse_request(bytes) : dissociated::Request{.ticket = as_text(bytes)};
    stats_.name = flight::TicketKeys::without_signature(request.ticket);  // whoever has a ticket may read
    if (request.ticket == kStatisticsTicket) stats_.name.clear();         // it reads nothing that was published
    check_leases();
    const auto counted = std::make_shared<const CountedStream>(consumer_);
    std::unique_ptr<ServerStream> source = open_(request, *connection_, counted);
    note_way(source->way());
    while (streams_.contains(next_stream_id_)) ++next_stream_id_;
    const std::uint32_t id = next_stream_id_++;
    under_way_ = &streams_.emplace(id, Stream{id, counted, std::move(source)}).first->second;
    if (request.ticket != kStatisticsTicket) ++n_streams_;  // looking at a server must not change what is seen
    asked_ns_ = now_ns();
  } catch (const std::exception& reason) {
    log_end(is_ordinary_refusal(reason) ? LogLevel::kInfo : LogLevel::kWarning, reason);
    stop_stream(reason);
  }
}

// A stream without bodies leaves what is said of the one before.
void ServerConnection::note_way(const WayAnswer& way) {
  if (*way.why == '\0') return;
  stats_.way = way.way;
  stats_.why = way.why;
}

// Leases that a client keeps cost the server memory, and make no memory available.
void ServerConnection::check_leases() const {
  if (const std::uint32_t streams = consumer_->streams(); streams >= options_.max_streams) {
    const std::uint32_t left = consumer_->abandoned();
    throw LeaseLimitError(
        "the server's max_streams is " + std::to_string(options_.max_streams) + ", and this consumer already has " +
        std::to_string(streams) +
        (left == 0 ? std::string()
                   : ", " + std::to_string(left) + " of them disconnected while their source is in a call") +
        ": a stream counts until it has ended and its batches are released");
  }
  const std::size_t out = sender_->leases().outstanding();
  if (out < options_.max_leases) return;
  throw LeaseLimitError("this connection holds " + std::to_string(out) +
                        " buffers of earlier streams, and the server's max_leases is " +
                        std::to_string(options_.max_leases) + ": release batches first, or connect again");
}

// Over a connection for bodies alone, no End of Stream is sent. A client that has received the last body (or learned
// from the metadata that there is none) may request the next stream before this end has detected the end of the
// previous one.
void ServerConnection::pass_end_of_bodies() {
  try {
    while (sender_->streaming()) {
      if (!has_current_) {
        const ServerStream::State state = under_way_->source->peek(&current_);
        if (state == ServerStream::State::kEnd) {
          sender_->end_of_stream();
          return end_stream({});
        }
        if (state != ServerStream::State::kReady || current_.has_body) return;
        sender_->next_message();
      } else if (current_.has_body) {
        return;
      }
      under_way_->source->pop();
      has_current_ = false;
    }
  } catch (const Error& reason) {
    fail_stream(reason);
  }
}

void ServerConnection::apply_frees() {
  if (freed_.empty()) return;
  starved_since_ms_ = 0;        // the consumer is slow, but it frees memory
  Stream* stream = under_way_;  // most frees belong to one stream
  for (const dissociated::Freed& freed : freed_) {
    const auto id = static_cast<std::uint32_t>(freed.holder >> 32);
    if (stream == nullptr || stream->id != id) stream = &streams_.at(id);
    stream->source->returned(static_cast<std::uint32_t>(freed.holder), freed.leases);
    stream->outstanding -= freed.leases;
    if (stream == under_way_) continue;
    if (stream->outstanding > 0) {
      if (stream->source->has_dropped()) drop_regions(stream);
      continue;
    }
    forget(*stream);
    stream = nullptr;
  }
  freed_.clear();
}

// Forgets a stream that has ended and has no outstanding leases.
void ServerConnection::forget(const Stream& stream) {
  for (const std::int32_t number : stream.numbers) release_number(number);
  const std::uint32_t id = stream.id;  // a copy, because erase() destroys `stream`
  streams_.erase(id);
}

// Records that one stream fewer uses the number.
void ServerConnection::release_number(std::int32_t number) {
  if (number == kNoNumber) return;
  Number& known = numbers_[static_cast<std::size_t>(number)];
  if (--known.streams > 0) return;
  const auto gone = static_cast<std::uint16_t>(number);
  regions_.remove(gone);
  if (std::exchange(known.announced, std::nullopt)) retired_.push_back(gone);
}

// Releases the numbers of regions that the stream has dropped before its end.
void ServerConnection::drop_regions(Stream* stream) {
  dropped_.clear();
  stream->source->take_dropped(&dropped_);
  for (const std::uint32_t index : dropped_) {
    if (index < stream->numbers.size()) release_number(std::exchange(stream->numbers[index], kNoNumber));
  }
}

bool ServerConnection::push_retired(TurnBudget& budget) {
  bool progress = false;
  while (!retired_.empty() && budget.left() && connection_->retire(retired_.back())) {
    retired_.pop_back();
    budget.spend(kPerRetirement);
    progress = true;
  }
  return progress;
}

bool ServerConnection::push_tail() {
  if (tail_.empty()) return true;  // a connection for bodies alone: the other connection carries the end
  if (!connection_->send(tail_, {})) return false;
  tail_.clear();
  return true;
}

bool ServerConnection::pump(std::int64_t now_ms, TurnBudget& budget) {
  bool progress = false;
  // Sends at least one message, even if the client's own messages have used up the budget: so they can't stop its
  // stream.
  for (bool first = true; first || budget.left(); first = false) {
    if (!tail_.empty()) return push_tail() || progress;
    if (under_way_ == nullptr) break;
    if (!has_current_) {
      // A message with a body is two messages of the transport.
      if (!connection_->below_window(2 * static_cast<std::size_t>(options_.window))) break;
      ServerStream::State state{};
      try {
        state = under_way_->source->peek(&current_);
        if (under_way_->source->has_dropped()) drop_regions(under_way_);
        waits_for_source_ = state == ServerStream::State::kLater || state == ServerStream::State::kStarved;
        if (state == ServerStream::State::kStarved) {
          watch_starvation(now_ms);
        } else {
          starved_since_ms_ = 0;
        }
        if (state == ServerStream::State::kLater) {
          if (const int wait = under_way_->source->look_again_ms(); wait > 0) deadline_ms_ = now_ms + wait;
        }
        if (state == ServerStream::State::kReady) check_size();
      } catch (const std::exception& reason) {
        fail_stream(reason);
        progress = true;
        continue;
      }
      // Outside of the try block above: a disconnected peer isn't an error of the source, and ends the connection.
      if (state == ServerStream::State::kEnd) {
        const dissociated::PrefixBytes end = sender_->end_of_stream();
        // End of Stream is sent with the metadata, and also tells the end of the bodies.
        end_stream(role_ == ChannelRole::kData ? std::vector<std::byte>() : std::vector(end.begin(), end.end()));
        progress = true;
        continue;
      }
      if (state != ServerStream::State::kReady) break;
      if (const WayAnswer& way = under_way_->source->way(); way.way != stats_.way || stats_.why.empty()) [[unlikely]] {
        note_way(way);
      }
      prefix_ = sender_->next_message();
      has_current_ = true;
      metadata_sent_ = false;
    }
    budget.spend(cost_of_current());
    bool sent = true;
    try {
      sent = send_current();
    } catch (const Error& reason) {
      if (is_one_of(reason, {ErrorCode::kConnection, ErrorCode::kProtocol, ErrorCode::kFork})) throw;
      fail_stream(reason);  // a region couldn't be passed: this ends the stream, not the connection
    }
    count_pushed(budget);
    if (!sent) break;
    progress = true;
  }
  count_pushed(budget);  // of below_window()
  return progress;
}

std::uint64_t ServerConnection::cost_of_current() const noexcept {
  return kPerMessage + kPerBuffer * (current_.buffers.size() + current_.parts.size());
}

void ServerConnection::check_size() const {
  if (!current_.by_value) return;
  // On the host, padding has parts of its own. On a device the transport adds it.
  const std::uint64_t alignment = current_.device == device::Device{} ? 1 : 64;
  std::uint64_t size = 0;
  for (const ByteSpan part : current_.parts) size += align_up(part.size(), alignment);
  if (size <= connection_->max_body()) return;
  throw LeaseLimitError("a batch of " + shown(stats_.name) + " has " + std::to_string(size) +
                        " bytes and must be sent by value, but the consumer accepts only " +
                        std::to_string(connection_->max_body()) +
                        " bytes at once: raise its max_body, or publish smaller batches");
}

// Writes the body of addresses, with the addresses by which the client knows the memory. Announces regions that it
// doesn't know yet. Returns false if there is no room for that.
bool ServerConnection::write_addresses() {
  body_.resize(current_.buffers.size() + 1);
  dissociated::RemoteBuffer* to = body_.data();
  std::uint32_t last = std::numeric_limits<std::uint32_t>::max();  // most batches are in one region
  std::uint64_t shift = 0;
  std::uint64_t total = 0;
  for (const dissociated::RemoteBuffer& buffer : current_.buffers) {
    *++to = buffer;
    if (buffer.length == 0) continue;
    const std::uint16_t index = device::address_region(buffer.address);
    if (index != last) [[unlikely]] {
      const std::optional<std::uint64_t> base = announced(index);
      if (!base) return false;
      last = index;
      shift = *base - device::make_address(index, 0);
    }
    to->address += shift;
    total += buffer.length;
  }
  body_.front() = dissociated::remote_body_head(total, current_.buffers.size());
  return true;
}

// Returns the address by which the client knows the first byte of a region of the stream; nothing if there is no room
// for its announcement.
std::optional<std::uint64_t> ServerConnection::announced(std::uint32_t index) {
  Stream& stream = *under_way_;
  if (index >= stream.numbers.size()) stream.numbers.resize(index + 1, kNoNumber);
  if (stream.numbers[index] == kNoNumber) stream.numbers[index] = number_of(stream.source->region(index));
  const auto number = static_cast<std::uint16_t>(stream.numbers[index]);
  std::optional<std::uint64_t>& base = numbers_[number].announced;
  if (!base) base = connection_->announce(number, stream.source->region(index));
  return base;
}

// Returns the number of a region, for one more stream that uses it.
std::int32_t ServerConnection::number_of(const std::shared_ptr<const device::Region>& region) {
  bool is_new = false;
  const std::uint16_t number = regions_.of(region, &is_new);
  if (number >= numbers_.size()) numbers_.resize(std::size_t{number} + 1);
  ++numbers_[number].streams;
  return number;
}

bool ServerConnection::send_current() {
  if (!metadata_sent_) {
    if (!send_metadata()) return false;
    metadata_sent_ = true;
  }
  if (current_.has_body && role_ != ChannelRole::kMetadata) {
    if (current_.by_value) {
      if (!send_by_value()) return false;
      stats_.bytes_by_value += current_.bytes;
    } else if (!send_remote()) {
      return false;
    }
    ++stats_.batches;
    stats_.rows += static_cast<std::uint64_t>(current_.rows);
    stats_.bytes += current_.bytes;
    time_batch();
  }
  under_way_->source->pop();
  has_current_ = false;
  current_ = {};
  return true;
}

// Counts a batch that was sent. The clock is read for a stream's first one alone, and once for all others of a turn.
void ServerConnection::time_batch() noexcept {
  if (asked_ns_ == 0) {
    ++untimed_;
    return;
  }
  last_batch_ns_ = now_ns();
  first_batch_times_.add(std::chrono::nanoseconds(last_batch_ns_ - std::exchange(asked_ns_, 0)));
  untimed_ = 0;
}

void ServerConnection::time_batches(std::int64_t now) noexcept {
  // The budget's clock is read from time to time only, and may be behind.
  batch_times_.add(std::chrono::nanoseconds(now - last_batch_ns_), std::exchange(untimed_, 0));
  last_batch_ns_ = std::max(last_batch_ns_, now);
}

bool ServerConnection::send_by_value() {
  const std::uint64_t tag = sender_->body_tag(dissociated::BodyType::kPacked);
  return current_.device == device::Device{}
             ? connection_->send_body(tag, current_.parts, current_.keep)
             : connection_->send_device_body(tag, current_.parts, current_.device, current_.keep);
}

bool ServerConnection::send_metadata() {
  // Announces regions before the metadata, so that a client that reads the body at once already finds them.
  if (current_.has_body && !current_.by_value && role_ != ChannelRole::kMetadata && !write_addresses()) return false;
  if (role_ == ChannelRole::kData) return true;
  if (current_.has_body && role_ == ChannelRole::kBoth) connection_->cork();
  return connection_->send(prefix_, current_.metadata);
}

bool ServerConnection::send_remote() {
  const std::span<const dissociated::RemoteBuffer> body(body_);
  if (!connection_->send_tagged(sender_->body_tag(dissociated::BodyType::kRemote), std::as_bytes(body), {}))
    return false;
  under_way_->outstanding += sender_->leases().lend(
      body.subspan(1), (static_cast<std::uint64_t>(under_way_->id) << 32) | current_.slot, now_ms_);
  return true;
}

void ServerConnection::end_stream(std::vector<std::byte> tail) {
  has_current_ = false;
  current_ = {};                                                       // it may keep a batch of the source alive
  connection_->below_window(std::numeric_limits<std::size_t>::max());  // no message waits for the window any more
  starved_since_ms_ = 0;
  if (!stats_.name.empty()) stats_.previous = std::exchange(stats_.name, {});
  tail_ = std::move(tail);
  if (Stream* const ended = std::exchange(under_way_, nullptr)) {
    ended->source->over();
    if (ended->source->has_dropped()) drop_regions(ended);
    if (ended->outstanding == 0) forget(*ended);
  }
  push_tail();
}

void ServerConnection::fail_stream(const std::exception& reason) {
  const bool refused = under_way_ != nullptr && !under_way_->source->has_begun() && is_ordinary_refusal(reason);
  log_end(refused || is_one_of(reason, {ErrorCode::kClosed}) ? LogLevel::kInfo : LogLevel::kWarning, reason);
  stop_stream(reason);
}

void ServerConnection::log_end(LogLevel level, const std::exception& reason) const {
  // A source's own words stay on the line, and out of the reach of a terminal.
  say(options_.log, level, [&] {
    return "the stream " + shown(stats_.name) + " to " + stats_.peer +
           " ended: " + excerpt(to_remote_text(reason), kMostErrorText);
  });
}

void ServerConnection::stop_stream(const std::exception& reason) {
  std::vector<std::byte> message = sender_->error(to_remote_text(reason));
  // A peer that doesn't know error messages sees the connection close.
  if (message.empty()) throw ConnectionError(std::string("ending the connection: ") + reason.what());
  end_stream(std::move(message));
}

// Cancels the stream. The consumer requested this, so nothing is logged.
void ServerConnection::cancel_stream() {
  std::vector<std::byte> message =
      sender_->error(to_remote_text(ClosedError("the stream was cancelled by its consumer")));
  if (message.empty()) throw ConnectionError("the client cancelled a stream, but doesn't support error messages");
  end_stream(std::move(message));
}

// A consumer that has received every message and still frees nothing keeps the whole stream, so waiting for it is
// useless. The rest of the stream is sent by value, into the consumer's own memory.
void ServerConnection::watch_starvation(std::int64_t now_ms) {
  if (!options_.lease_patience || !connection_->agreement().ways.has(transport::Way::kMessage)) return;
  if (connection_->in_flight() > 0) {  // it may still free messages that it hasn't received yet: check again
    starved_since_ms_ = 0;
    deadline_ms_ = now_ms + std::max(to_ms(*options_.lease_patience), 1);
    return;
  }
  if (starved_since_ms_ == 0) starved_since_ms_ = now_ms;
  const std::int64_t until = starved_since_ms_ + to_ms(*options_.lease_patience);
  if (now_ms < until) {
    deadline_ms_ = until;
  } else {
    under_way_->source->pass_by_value();  // this wakes the source, which notifies the waker when it has continued
  }
}

// Takes what the consumer has freed before it ended: the connection may have been found closed while something was
// sent.
void ServerConnection::take_last_frees() noexcept {
  const auto any_outstanding = [this] {
    return std::ranges::any_of(streams_, [](const auto& entry) { return entry.second.outstanding > 0; });
  };
  try {
    for (int messages = 0; any_outstanding();) {
      if (sender_->freeing()) {
        sender_->free_more(&freed_);
      } else {
        if (++messages > kMostLastMessages) return;
        const std::optional<transport::Incoming> message = connection_->receive();
        if (!message) return;
        if (!message->tagged || message->tag != connection_->agreement().free_data) continue;
        sender_->on_tagged(message->tag, message->bytes, &freed_);
      }
      apply_frees();
    }
  } catch (const std::exception&) {
    // The connection has ended, and nothing follows; or the peer broke its rules, and is believed no more.
  }
}

bool ServerConnection::finished() {
  const bool being_read = std::ranges::any_of(streams_, [](const auto& entry) {
    return entry.second.outstanding > 0 && entry.second.source->way().way == transport::Way::kRead;
  });
  return under_way_ == nullptr && tail_.empty() && !being_read && connection_->below_window(1);
}

void ServerConnection::close(const std::exception& reason, int pushes) noexcept {
  try {
    if (under_way_ != nullptr) stop_stream(reason);
    while (pushes-- > 0 && (!push_tail() || !connection_->flush())) {
    }
  } catch (const std::exception&) {
    // The connection is about to end in any case.
  }
}

void ServerConnection::add_totals(StreamTotals* totals) const {
  totals->streams += n_streams_;
  totals->batches += stats_.batches;
  totals->rows += stats_.rows;
  totals->bytes += stats_.bytes;
  totals->bytes_by_value += stats_.bytes_by_value;
  totals->first_batch.add(first_batch_times_);
  totals->batch.add(batch_times_);
}

ConsumerStats ServerConnection::stats(std::int64_t now_ms) {
  ConsumerStats stats = stats_;
  stats.window = options_.window;
  stats.in_flight = connection_->in_flight();
  stats.leases = sender_->leases().outstanding();
  stats.leased_bytes = sender_->leases().outstanding_bytes();
  if (const auto oldest = sender_->leases().oldest_ms())
    stats.oldest_lease = std::chrono::milliseconds(now_ms - *oldest);
  return stats;
}

}  // namespace crossdock::session
