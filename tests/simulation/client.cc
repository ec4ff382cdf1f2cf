#include "client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "crossdock/core/error.h"
#include "failure.h"

namespace crossdock::simulation {
namespace {

using dissociated::BodyType;
using dissociated::Receiver;
using Item = Receiver::Item;

bool same(ByteSpan a, ByteSpan b) { return std::ranges::equal(a, b); }

}  // namespace

Client::Client(const Habits& habits, Environment& environment, std::vector<Wire*> wires, Books& books, Random random,
               Choose choose, Foreign foreign)
    : habits_(habits),
      environment_(environment),
      wires_(std::move(wires)),
      books_(books),
      random_(random),
      choose_(std::move(choose)),
      foreign_(std::move(foreign)) {}

bool Client::turn() {
  if (gone_) return false;
  if (rogue_) {
    if (!wires_.back()->to_client.ended()) return false;
    gone_ = true;
    return true;
  }
  if (habits_.pace == Habits::Pace::kStuck && taken_ >= habits_.stuck_after) return false;
  if (habits_.offence != Offence::kNone && taken_ > 0 && random_.one_in(environment_.draining ? 2 : 20) && offend()) {
    return true;
  }
  if (habits_.may_leave && !environment_.draining && random_.one_in(60)) {
    leave();
    return true;
  }
  bool progress = receive();
  note_losses();
  const bool takes = environment_.draining || habits_.pace != Habits::Pace::kSlow || random_.one_in(6);
  while (takes && !gone_ && take()) {
    progress = true;
    if (habits_.pace == Habits::Pace::kSlow && !environment_.draining) break;
  }
  if (gone_) return true;
  if (habits_.may_cancel && under_way_ && !cancelled_ && record_->schema_taken && random_.one_in(10)) {
    cancel();
    progress = true;
  }
  progress |= release();
  if (!under_way_ && asked_ < habits_.streams && (environment_.draining || random_.one_in(2))) {
    ask();
    progress = true;
  }
  return progress;
}

bool Client::receive() {
  if (under_way_ && reads_ && reads_->ended()) return false;  // what comes next is of no stream, or of the next one
  bool progress = false;
  for (Wire* wire : wires_) {
    const std::uint32_t most = environment_.draining ? 64 : random_.below(6);
    for (std::uint32_t i = 0; i < most; ++i) {
      const std::optional<Packet> packet = wire->to_client.receive(environment_.now);
      if (!packet) break;
      feed(*packet);
      progress = true;
    }
  }
  return progress;
}

void Client::feed(const Packet& packet) {
  environment_.happened(packet.tag + packet.bytes.size());
  require(under_way_, name() + ": a message came while nothing is asked for");
  std::shared_ptr<const std::vector<std::byte>> owner;
  try {
    if (!packet.tagged) {
      receiver_.on_untagged(packet.bytes);
    } else if (random_.one_in(2)) {
      owner = std::make_shared<const std::vector<std::byte>>(packet.bytes);
      receiver_.on_tagged(packet.tag, *owner, owner);
    } else {
      receiver_.on_tagged(packet.tag, packet.bytes);
    }
  } catch (const Error& problem) {
    throw Failure(name() + ": the receiver refused what its server sent: " + problem.what());
  }
  const auto number =
      packet.tagged ? static_cast<std::uint32_t>(packet.tag) : load_le<std::uint32_t>(packet.bytes.data() + 1);
  const auto type = packet.tagged ? 1 : std::to_integer<unsigned>(packet.bytes[0]);
  const bool jumped = record_->schema_taken && record_->plan->first_number != 1;
  const std::size_t at = jumped ? record_->position_of(number) : number;
  if (type == 0) {
    end_ = at;
  } else if (type != 1) {
    if (!error_) error_ = at;
  } else if (!error_ || at < *error_) {
    Arrived& arrived = arrived_[at];
    (packet.tagged ? arrived.body : arrived.metadata) = true;
    if (owner && !owner->empty()) arrived.owned = owner->data();
  }
}

/// A connection that ends while something is still to come over it is lost, and the stream with it.
void Client::note_losses() {
  bool lost = false;
  for (std::size_t i = 0; i < wires_.size(); ++i) {
    if (!wires_[i]->to_client.ended()) continue;
    bool whole = !under_way_;
    if (under_way_ && end_ && wires_.size() == 2) {
      whole = true;
      for (std::size_t at = position_; at < *end_; ++at) {
        const auto found = arrived_.find(at);
        const bool came = found != arrived_.end() && (i == 0 ? found->second.metadata : found->second.body || at == 0);
        whole = whole && came;
      }
    }
    if (whole && i == 0 && wires_.size() == 2) continue;  // "safe to close the metadata connection"
    lost = true;
  }
  if (!lost) return;
  environment_.note(books_.consumer, [] { return "sees its connection lost"; });
  for (Wire* wire : wires_) wire->cut(environment_.now);
  if (reads_) reads_->lose();
  receiver_.on_disconnected();
  lost_ = true;
  while (!gone_ && take()) continue;
  gone_ = true;
}

/// What next() must say: derived from what has arrived, by the rules alone.
Client::Due Client::due() const {
  // A receiver that was never asked anything waits for its first stream.
  if (!under_way_) return lost_ && asked_ == 0 ? Due::kTruncated : Due::kNothing;
  const auto found = arrived_.find(position_);
  if (found != arrived_.end() && found->second.metadata && (position_ == 0 || found->second.body)) return Due::kMessage;
  if (end_ == position_) return Due::kEnd;
  if (error_) return Due::kError;
  return lost_ ? Due::kTruncated : Due::kNothing;
}

bool Client::take() { return take_item() || take_read(); }

bool Client::take_item() {
  if (reads_ && !reads_->has_room()) return false;
  static constexpr const char* kNames[] = {"nothing", "a message", "the end", "an error", "a truncated stream"};
  const Due expected = due();
  Due got = Due::kNothing;
  const Item* item = nullptr;
  try {
    item = receiver_.next();
    if (item != nullptr) {
      got = item->kind == Item::Kind::kMessage ? Due::kMessage
            : item->kind == Item::Kind::kEnd   ? Due::kEnd
                                               : Due::kError;
    }
  } catch (const TruncatedStreamError& problem) {
    got = Due::kTruncated;
    environment_.note(books_.consumer, [&] { return std::string(problem.what()); });
  } catch (const std::exception& problem) {
    throw Failure(name() + ": taking message " + std::to_string(position_) + " failed: " + problem.what());
  }
  require(got == expected, name() + ": " + kNames[static_cast<int>(got)] + " came out at position " +
                               std::to_string(position_) + "; it should be " + kNames[static_cast<int>(expected)]);
  if (got == Due::kNothing) return false;
  environment_.happened(static_cast<std::uint64_t>(got));
  if (got == Due::kTruncated) {
    require(!receiver_.finished(), name() + ": a truncated stream says that it is finished");
    if (!reads_) {
      gone_ = true;
    } else {
      truncated_ = true;
      reads_->end(Reads::Ending::kEnd);
    }
  } else if (got == Due::kMessage) {
    check_message(*item);
  } else {
    const std::uint32_t number = record_->number_of(position_);
    if (got == Due::kEnd) {
      require(item->sequence == number, name() + ": the end has another number than the one due");
      require(position_ == record_->plan->messages.size() + 1, name() + ": the stream ended after " +
                                                                   std::to_string(position_) + " messages of " +
                                                                   std::to_string(record_->plan->messages.size() + 1));
    } else {
      const std::string_view reason =
          record_->cancelled ? "CancelledError: as asked" : "RemoteError: the source failed";
      require(as_text(item->metadata) == reason, name() + ": the reason came out as another");
    }
    if (!reads_) {
      finish(got);
    } else {
      reads_->end(got == Due::kEnd ? Reads::Ending::kEnd : Reads::Ending::kError);
    }
  }
  return true;
}

/// What the queue of reads has to say, once no message can be taken.
bool Client::take_read() {
  if (!reads_ || !under_way_) return false;
  switch (reads_->next()) {
    case Reads::Due::kNothing: return false;
    case Reads::Due::kBody: break;
    case Reads::Due::kFailed:
      environment_.note(books_.consumer, [] { return "has a read that failed"; });
      leave();
      break;
    case Reads::Due::kEnd:
      gone_ = truncated_;
      if (!gone_) finish(Due::kEnd);
      break;
    case Reads::Due::kError: finish(Due::kError); break;
  }
  return true;
}

void Client::check_message(const Item& item) {
  const StreamRecord::Message& sent = record_->messages.at(position_);
  const std::string at = name() + ", message " + std::to_string(position_);
  require(item.sequence == record_->number_of(position_), at + ": came out as number " + std::to_string(item.sequence));
  require(same(item.metadata, *sent.metadata), at + ": its metadata isn't what was sent");
  require(item.message != nullptr && item.message->has_body() == sent.has_body, at + ": it was parsed wrongly");
  if (sent.has_body) {
    require(item.body_type == sent.type, at + ": its body came out as another type");
    require(same(item.body, sent.body), at + ": its body isn't what was sent");
    const std::byte* const owned = arrived_[position_].owned;
    require((item.body_owner != nullptr) == (owned != nullptr) || item.body.empty(),
            at + ": its body's owner is wrong");
    require(owned == nullptr || item.body.data() == owned, at + ": a body that had an owner was copied");
    deliver(sent);
  }
  arrived_.erase(position_++);
  ++taken_;
  if (position_ == 1) {
    record_->schema_taken = true;
    if (record_->plan->first_number != 1) receiver_.set_next_sequence(record_->plan->first_number);
  }
}

/// A body that is read waits in the queue, and so does each one behind it.
void Client::deliver(const StreamRecord::Message& message) {
  std::vector<std::uint64_t> addresses;
  std::uint64_t bytes = message.metadata->size();
  for (const dissociated::RemoteBuffer& buffer : message.buffers) {
    if (buffer.address != 0) addresses.push_back(buffer.address);
    bytes += buffer.length;
  }
  const bool reads = reads_ && message.type == BodyType::kRemote && !record_->plan->live;
  if (reads || (reads_ && !reads_->empty())) {
    reads_->push(position_, std::move(addresses), bytes);
  } else if (message.type == BodyType::kRemote) {
    held_.push_back(std::move(addresses));
  }
}

void Client::finish(Due how) {
  require(receiver_.finished(), name() + ": the stream's end was taken, and the receiver doesn't know it");
  under_way_ = false;
  environment_.note(books_.consumer, [&] { return how == Due::kEnd ? "has its stream whole" : "is told an error"; });
  const bool idle = !reads_ || reads_->drop();
  // What the error overtook may still come, and would be taken for the next stream's. And a read that failed would take
  // the next stream's connection with it.
  if (how == Due::kError && !(habits_.reuses_after_error && idle)) return leave();
  if (!habits_.counts && habits_.frees) {
    std::set<std::uint64_t> distinct;
    for (const std::vector<std::uint64_t>& addresses : held_) distinct.insert(addresses.begin(), addresses.end());
    held_.clear();
    for (const std::uint64_t address : distinct) books_.entitled[address] = 0;
    free({distinct.begin(), distinct.end()});
  }
}

void Client::ask() {
  receiver_ = Receiver();
  record_ = std::make_shared<StreamRecord>();
  record_->plan = choose_(random_);
  books_.records.push_back(record_);
  ++asked_;
  under_way_ = true;
  cancelled_ = false;
  error_.reset();
  end_.reset();
  position_ = 0;
  arrived_.clear();
  if (habits_.reads) {
    const auto free = [this](const std::vector<std::uint64_t>& addresses) { return_addresses(addresses); };
    reads_ = std::make_unique<Reads>(*habits_.reads, environment_, books_, random_.fork(), free);
  }
  environment_.note(books_.consumer, [&] {
    return "asks for " + std::string(record_->plan->live ? "a live stream" : "a table") + " of " +
           std::to_string(record_->plan->messages.size()) + " messages";
  });
  const std::vector<std::byte> ticket = {static_cast<std::byte>(books_.records.size() - 1)};
  for (Wire* wire : wires_) wire->to_server.send({true, kWantData, ticket, true}, environment_.now);
}

/// Releases some of what it holds, in any order.
bool Client::release() {
  if (!habits_.frees || !habits_.counts || held_.empty()) return false;
  if (!environment_.draining && !random_.one_in(3)) return false;
  std::vector<std::uint64_t> addresses;
  const std::size_t count = environment_.draining ? held_.size() : 1 + random_.below(held_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto one = held_.begin() + static_cast<std::ptrdiff_t>(random_.below(held_.size()));
    addresses.insert(addresses.end(), one->begin(), one->end());
    held_.erase(one);
  }
  return_addresses(std::move(addresses));
  return true;
}

void Client::return_addresses(std::vector<std::uint64_t> addresses) {
  for (const std::uint64_t address : addresses) {
    std::uint32_t& left = books_.entitled[address];
    left -= left != 0;
  }
  free(std::move(addresses));
}

/// "An arbitrary number" of addresses in each message: one message or many.
void Client::free(std::vector<std::uint64_t> addresses) {
  for (std::size_t at = 0; at < addresses.size();) {
    const std::size_t count = 1 + random_.below(addresses.size() - at);
    std::vector<std::byte> body(8 * count);
    for (std::size_t i = 0; i < count; ++i) store_le(body.data() + 8 * i, addresses[at + i]);
    wires_.back()->to_server.send({true, kFreeData, std::move(body), false}, environment_.now);
    at += count;
  }
}

void Client::cancel() {
  cancelled_ = true;
  environment_.note(books_.consumer, [] { return "cancels"; });
  wires_.front()->to_server.send({false, 0, std::vector<std::byte>(5), true}, environment_.now);
}

/// False where there is nothing to do it with.
bool Client::offend() {
  const auto send = [&](bool tagged, std::uint64_t tag, std::vector<std::byte> bytes) {
    wires_.back()->to_server.send({tagged, tag, std::move(bytes), false}, environment_.now);
  };
  const auto free = [&](std::uint64_t address, std::size_t times) {
    std::vector<std::byte> body(8 * times);
    for (std::size_t i = 0; i < times; ++i) store_le(body.data() + 8 * i, address);
    send(true, kFreeData, std::move(body));
  };
  switch (habits_.offence) {
    case Offence::kNone: return false;
    case Offence::kForgedAddress: free(0xDEAD'0000'0000'0040, 1); break;
    case Offence::kForeignAddress: {
      const std::uint64_t address = foreign_();
      if (address == 0) return false;
      free(address, 1);
      break;
    }
    case Offence::kRepeatedFree:
      if (held_.empty() || held_.back().empty()) return false;
      free(held_.back().front(), 1000);
      break;
    case Offence::kPartOfAddress: send(true, kFreeData, std::vector<std::byte>(1 + random_.below(7))); break;
    case Offence::kUnknownTag: send(true, random_.next(), {}); break;
    case Offence::kBodysTag: send(true, kWantData ^ (std::uint64_t{1} << (56 + random_.below(8))), {}); break;
    case Offence::kSecondRequest:
      if (!under_way_) return false;
      send(true, kWantData, {});
      send(true, kWantData, {});
      break;
    case Offence::kUntagged: send(false, 0, {std::byte{1}, {}, {}, {}, {}}); break;
  }
  environment_.note(books_.consumer, [&] { return "offends: " + std::to_string(static_cast<int>(habits_.offence)); });
  rogue_ = true;
  return true;
}

void Client::leave() {
  environment_.note(books_.consumer, [] { return "goes"; });
  if (reads_ && under_way_) reads_->drop();
  gone_ = true;
  books_.entitled.clear();
  for (Wire* wire : wires_) wire->to_server.close();
}

bool Client::content() const {
  return !gone_ && !rogue_ && !under_way_ && asked_ == habits_.streams && (held_.empty() || !habits_.frees);
}

void Client::check_at_rest() const {
  if (gone_ || rogue_ || habits_.pace == Habits::Pace::kStuck) return;
  require(content(), name() + ": nothing moves any more, but it " +
                         (under_way_ ? "still waits for message " + std::to_string(position_)
                                     : "has " + std::to_string(held_.size()) + " bodies that it didn't free"));
}

}  // namespace crossdock::simulation
