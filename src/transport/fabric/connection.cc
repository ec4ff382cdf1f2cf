#include "connection.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "closing.h"
#include "crossdock/core/error.h"
#include "settings.h"
#include "transport/net/socket_options.h"

namespace crossdock::transport::fabric {
namespace {

/// A body up to this size goes over the link: its bytes cost less than an operation of libfabric.
constexpr std::uint64_t kInline = 16 << 10;
// What may be kept behind a body that isn't complete, so that the bodies after it come meanwhile.
constexpr std::size_t kMaxBodies = Traffic::kMaxOutgoing;
constexpr std::uint64_t kMaxBodyBytes = 128 << 20;
constexpr std::size_t kMaxArrived = 64;
constexpr std::size_t kMaxArrivedBytes = 1 << 20;  // of messages, the last of which may go over it
/// Groups of reads under way at once.
constexpr std::size_t kMaxReads = 64;
/// Frames without a message, such as announcements, that one receive() takes.
constexpr int kFramesPerTurn = 64;
/// Turns for what has arrived before the peer said goodbye: the library has it, and takes several turns to tell.
constexpr int kLastTurns = 100;
/// Turns for events of libfabric's own, which are no news for us.
constexpr int kSleepTurns = 100;
constexpr int kNumberShift = 48;
/// How long the link is watched to learn whether a read failed because the peer is gone, which its system tells at
/// once.
constexpr int kDeathMs = 100;

}  // namespace

class FabricConnection::FabricReading final : public Reading {
 public:
  explicit FabricReading(std::shared_ptr<ReadState> state) noexcept : state_(std::move(state)) {}
  FabricReading(const FabricReading&) = delete;
  FabricReading& operator=(const FabricReading&) = delete;
  ~FabricReading() override { see(); }
  bool done() override {
    if (state_->connection != nullptr) state_->connection->advance_reads();
    see();
    if (state_->failure) std::rethrow_exception(state_->failure);
    return state_->connection == nullptr;
  }

 private:
  void see() noexcept {
    if (state_->unseen) --*std::exchange(state_->unseen, nullptr);
  }

  const std::shared_ptr<ReadState> state_;
};

FabricConnection::FabricConnection(UniqueFd socket, EndpointPtr endpoint, const Introduction& introduction,
                                   const FabricOptions& options, std::shared_ptr<ClosingEnds> closing)
    : StreamConnection(std::make_shared<net::Socket>(std::move(socket), introduction.agreement.peer), introduction,
                       stream_limits(options), kNames),
      max_body_(options.max_body),
      closing_(std::move(closing)),
      domain_(endpoint->shared_domain()),
      traffic_(std::make_unique<Traffic>(std::move(endpoint))),
      next_tag_(random_number()),
      body_memory_(pool()) {
  watch(traffic_->descriptor());
  for (int turn = 0; turn < kSleepTurns && !traffic_->may_sleep(); ++turn) {
  }
}

FabricConnection::~FabricConnection() {
  close_later();
  if (traffic_) finish(traffic_->outgoing() == 0);
  std::exception_ptr why;
  try {
    why = std::make_exception_ptr(ConnectionError(where() + ": this end was closed in the middle of a read"));
  } catch (const std::bad_alloc&) {
    why = std::current_exception();
  }
  shut(why);
}

/// Leaves the link and the endpoint to a ClosingEnd if the peer may still need them.
void FabricConnection::close_later() noexcept {
  if (fork_guard().in_child() || traffic_->broken()) return;
  if (traffic_->outgoing() == 0 && announced_.empty()) return;
  std::optional<net::Link> link = take_link();
  if (!link) return;
  try {
    std::unique_ptr<ClosingEnd> end =
        std::make_unique<FabricClosingEnd>(std::move(*link), std::move(traffic_), std::move(announced_));
    if (end->over() || (closing_ && closing_->add(end))) return;
    std::list<std::unique_ptr<ClosingEnd>> one;
    one.push_back(std::move(end));
    wait_for_all(std::move(one));
  } catch (const std::bad_alloc&) {
    // Without memory, both are closed at once.
    if (traffic_) net::shut_down(link->stream->get());
  }
}

// --- the sending half ---

bool FabricConnection::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  std::uint64_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  if (size <= kInline) return StreamConnection::send_body(tag, parts, std::move(keep));
  check_usable();
  check_body(size);
  if (!traffic_->has_room()) {
    traffic_->progress();
    wake_sleeper();  // it may have been the other half's operation
  }
  if (traffic_->broken()) throw_gone();
  if (!traffic_->has_room()) {
    bodies_refused_.add();
    return false;
  }
  auto body =
      std::make_shared<OutgoingBody>(parts, size, next_tag_, domain_->info()->ep_attr->max_msg_size, std::move(keep));
  if (!send_frame(net::FrameKind::kBodyBeside, tag, encode(body->announcement()), {})) return false;
  next_tag_ += body->messages();
  traffic_->send(std::move(body));
  wake_sleeper();
  return true;
}

bool FabricConnection::flush() {
  const bool link = StreamConnection::flush();
  if (traffic_->outgoing() == 0) return link;
  const std::uint64_t before = traffic_->ended();
  traffic_->progress();
  if (traffic_->ended() != before) wake_sleeper();  // it may have been the other half's operation
  if (traffic_->broken()) throw_gone();
  return link && traffic_->outgoing() == 0;
}

Ways FabricConnection::ways_of(const device::Region& region) const {
  if (region.kind() == device::RegionKind::kFile) return {};
  return Connection::ways_of(region);
}

bool FabricConnection::prepare_reads(const device::Region& region) const {
  try {
    RegisteredRegion::of(region, domain_);
    return true;
  } catch (const ResourceError&) {
    return false;
  }
}

std::optional<std::uint64_t> FabricConnection::announce(std::uint16_t number,
                                                        const std::shared_ptr<const device::Region>& region) {
  if (!serves() || !agreement().ways.has(Way::kRead)) return Connection::announce(number, region);
  check_usable();
  if (announced_.contains(number)) {
    throw std::logic_error("fabric: region number " + std::to_string(number) +
                           " was already announced; retire it before it is used again");
  }
  const auto registered = RegisteredRegion::of(*region, domain_);
  const RegionAnnouncement announcement{region->size(), registered->start(), registered->key()};
  if (!send_frame(net::FrameKind::kRegion, number, encode(announcement), {})) return std::nullopt;
  announced_.emplace(number, region);
  return std::uint64_t{number} << kNumberShift;
}

bool FabricConnection::retire(std::uint16_t number) {
  const auto found = announced_.find(number);
  if (found == announced_.end()) {
    throw std::logic_error("fabric: region number " + std::to_string(number) + " is retired, but was never announced");
  }
  check_usable();
  if (!send_frame(net::FrameKind::kRetired, number, {}, {})) return false;
  announced_.erase(found);
  return true;
}

// --- the receiving half ---

void FabricConnection::receive_into(std::shared_ptr<BodyMemory> memory) {
  body_memory_ = memory ? memory : pool();
  StreamConnection::receive_into(std::move(memory));
}

std::optional<Incoming> FabricConnection::take() {
  try {
    return take_next();
  } catch (const std::exception&) {  // bad_alloc as well: a frame may have been taken in part
    shut(std::current_exception());
    throw;
  }
}

std::optional<Incoming> FabricConnection::take_next() {
  begin_turn();
  bodies_refused_.forget();
  traffic_->progress();
  seen_ended_ = traffic_->ended();  // before anything is looked at: what ends from now on is news
  collect_reads();
  for (int frames = 0; frames < kFramesPerTurn; ++frames) {
    if (std::optional<Incoming> message = take_arrived()) return message;
    // What doesn't need the endpoint can still come.
    if (traffic_->broken() && (!arrived_.empty() || !reads_.empty())) throw_broken();
    if (!read_link()) break;
  }
  if (stream_ended() || (!takes_input() && hung_up())) return take_last();
  if (traffic_->broken()) throw_broken();
  if (stream_drained() || !takes_input()) acknowledge(true);
  return std::nullopt;
}

/// Reads a frame, or the next bytes of one. Returns whether arrived_ has something new.
bool FabricConnection::read_link() {
  if (!takes_input()) return false;
  frame_came_ = false;
  std::optional<Incoming> in = next_of_stream();
  if (!in) return frame_came_;
  Message message{.tagged = in->tagged, .tag = in->tag, .owner = std::move(in->owner), .bytes = in->bytes};
  if (!message.owner) {
    message.copy.assign(in->bytes.begin(), in->bytes.end());
    message.bytes = message.copy;
  }
  message_bytes_ += message.bytes.size();
  arrived_.emplace_back(std::move(message));
  update_takes_input();
  return true;
}

/// Returns the next message that is complete, and applies the announcements before it.
std::optional<Incoming> FabricConnection::take_arrived() {
  std::optional<Incoming> out;
  while (!out && !arrived_.empty()) {
    Arrived& front = arrived_.front();
    if (const auto* const body = std::get_if<std::shared_ptr<ArrivingBody>>(&front)) {
      if (!traffic_->is_complete(**body)) return std::nullopt;
      out = take_body(**body);
    } else if (auto* const message = std::get_if<Message>(&front)) {
      current_ = std::move(*message);
      message_bytes_ -= current_.bytes.size();
      out = Incoming{current_.tagged, current_.tag, current_.bytes, std::move(current_.owner)};
    } else if (auto* const announced = std::get_if<Announced>(&front)) {
      const std::uint16_t number = announced->number;
      if (!regions_.try_emplace(number, std::move(announced->region)).second) {
        throw ProtocolError(where() + " announced region " + std::to_string(number) + " twice");
      }
    } else if (const std::uint16_t number = std::get<Retired>(front).number; regions_.erase(number) == 0) {
      throw ProtocolError(where() + " retired region " + std::to_string(number) + ", which it hadn't announced");
    }
    arrived_.pop_front();
    update_takes_input();
  }
  if (out) count(*out);
  return out;
}

Incoming FabricConnection::take_body(const ArrivingBody& body) {
  if (body.too_short()) {
    throw ProtocolError(where() + " sent less of a body of " + std::to_string(body.size()) +
                        " bytes than it had announced");
  }
  --bodies_;
  body_bytes_ -= body.size();
  return {true, body.tag(), {body.memory().get(), static_cast<std::size_t>(body.size())}, body.memory()};
}

/// Returns what is left when the link has ended; then throws.
std::optional<Incoming> FabricConnection::take_last() {
  for (int turn = 0; turn < kLastTurns && !arrived_.empty(); ++turn) {
    traffic_->progress();
    if (std::optional<Incoming> message = take_arrived()) return message;
  }
  throw_end(!arrived_.empty());
}

void FabricConnection::update_takes_input() noexcept {
  takes_input_.store(bodies_ < kMaxBodies && body_bytes_ < kMaxBodyBytes && arrived_.size() < kMaxArrived &&
                         message_bytes_ < kMaxArrivedBytes,
                     std::memory_order_relaxed);
}

void FabricConnection::beside(net::FrameKind kind, std::uint64_t number, ByteSpan payload) {
  frame_came_ = true;
  if (kind == net::FrameKind::kBodyBeside) {
    add_body(number, payload);
  } else if (kind == net::FrameKind::kRegion) {
    add_region(check_region(number), payload);
  } else {
    arrived_.emplace_back(Retired{check_region(number)});
  }
  update_takes_input();
}

void FabricConnection::add_body(std::uint64_t tag, ByteSpan payload) {
  BodyAnnouncement announced;
  if (!decode(payload, &announced)) throw ProtocolError(where() + " sent a malformed announcement of a body");
  if (announced.size > max_body_) {
    throw ProtocolError(where() + " announced a body of " + std::to_string(announced.size) +
                        " bytes; this end accepts at most " + std::to_string(max_body_) + " (FabricOptions::max_body)");
  }
  // Nothing more comes from a peer that is gone. The endpoint may know it before the link: then the receive fails.
  if (hung_up()) throw_end(true);
  std::shared_ptr<std::byte> memory = body_memory_->allocate(announced.size);
  auto body = std::make_shared<ArrivingBody>(tag, std::move(announced), std::move(memory));
  ++bodies_;
  body_bytes_ += body->size();
  arrived_.emplace_back(body);
  traffic_->receive(std::move(body));
}

/// Checks that the peer may announce and retire regions, and the number.
std::uint16_t FabricConnection::check_region(std::uint64_t number) const {
  if (serves() || !agreement().ways.has(Way::kRead)) {
    throw ProtocolError(where() + " sent an announcement of a region, which this end didn't agree to");
  }
  if (number > 0xFFFF) throw ProtocolError(where() + " named a region " + std::to_string(number) + ", over 65535");
  return static_cast<std::uint16_t>(number);
}

void FabricConnection::add_region(std::uint16_t number, ByteSpan payload) {
  RegionAnnouncement announced;
  if (!decode(payload, &announced)) throw ProtocolError(where() + " sent a malformed announcement of a region");
  auto region = std::make_shared<const PeerRegion>(std::uint64_t{number} << kNumberShift, announced.size, nullptr);
  arrived_.emplace_back(Announced{number, {std::move(region), announced.start, announced.key}});
}

const ReadableRegion* FabricConnection::find(std::uint64_t address) const noexcept {
  const auto known = regions_.find(static_cast<std::uint16_t>(address >> kNumberShift));
  return known == regions_.end() ? nullptr : &known->second;
}

/// Never waits: a region's announcement comes before every message that names an address in it.
std::shared_ptr<const PeerRegion> FabricConnection::peer_region(std::uint64_t address, int timeout_ms,
                                                                const InterruptHook& interrupted) {
  if (!agreement().ways.has(Way::kRead)) return Connection::peer_region(address, timeout_ms, interrupted);
  if (const ReadableRegion* const known = find(address)) return known->region;
  throw ProtocolError(where() + " named the address " + std::to_string(address) +
                      ", which is in no region that it has announced");
}

std::unique_ptr<Reading> FabricConnection::read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep) {
  if (!agreement().ways.has(Way::kRead)) return Connection::read(parts, std::move(keep));
  check_usable();
  if (traffic_->broken()) throw_gone();
  if (reads_.size() >= kMaxReads) return nullptr;
  auto state = std::make_shared<ReadState>();
  std::vector<PlacedPart> placed;
  for (const ReadPart& part : parts) {
    const ReadableRegion* const in = find(part.address);
    if (in == nullptr || !in->region->contains(part.address, part.length)) {
      state->failure = std::make_exception_ptr(
          ProtocolError("a read of " + std::to_string(part.length) + " bytes at address " +
                        std::to_string(part.address) + " is outside every region that " + where() + " has announced"));
      return std::make_unique<FabricReading>(std::move(state));
    }
    placed.push_back({part, *in});
    state->bytes += part.length;
  }
  if (state->bytes == 0) {
    return std::make_unique<FabricReading>(std::move(state));
  }
  state->connection = this;
  state->group = std::make_shared<ReadGroup>(placed, domain_->info()->ep_attr->max_msg_size, std::move(keep));
  reads_.push_back(state);
  read_bytes_ += state->bytes;
  traffic_->read(state->group);
  return std::make_unique<FabricReading>(std::move(state));
}

/// For a Reading: makes progress, and ends the reads if there is nobody left to serve them.
void FabricConnection::advance_reads() {
  try {
    traffic_->progress();
    seen_ended_ = traffic_->ended();
    collect_reads();
    check_usable();
    if (traffic_->broken()) throw_broken();
    if (!reads_.empty() && hung_up()) throw_end(true);
  } catch (const std::exception&) {
    shut(std::current_exception());
  }
}

/// Drops the reads that have ended.
void FabricConnection::collect_reads() {
  std::erase_if(reads_, [this](const std::shared_ptr<ReadState>& state) {
    if (!traffic_->is_complete(*state->group)) return false;
    state->group.reset();
    state->connection = nullptr;
    read_bytes_ -= state->bytes;
    const bool has_reading = state.use_count() > 1;
    if (has_reading) {
      state->unseen = unseen_reads_;
      ++*unseen_reads_;
    }
    return true;
  });
}

/// Ends everything that goes through the endpoint.
void FabricConnection::shut(const std::exception_ptr& why) noexcept {
  finish(false);
  if (traffic_ && !fork_guard().in_child()) traffic_->close();  // the endpoint's sockets are shared with the parent
  read_bytes_ = 0;
  for (const auto& state : std::exchange(reads_, {})) {
    state->group.reset();
    state->connection = nullptr;
    state->failure = why;
  }
  arrived_.clear();
}

void FabricConnection::throw_broken() {
  const std::optional<Failure> failure = traffic_->failure();
  const std::string why = " (libfabric: " + traffic_->broken_why() + ")";
  if (failure && failure->kind == Operation::Kind::kReceive && failure->error == FI_ETRUNC) {
    throw ProtocolError(where() + " sent more of a body than it had announced" + why);
  }
  if (failure && failure->kind == Operation::Kind::kRead) {
    // A peer that refuses a read closes its endpoint's connection, as one does that has died.
    if (!hung_up(kDeathMs)) throw ProtocolError(where() + " refused a read of its memory" + why);
  }
  throw ConnectionError(where() + ": the endpoint beside the connection has failed" + why);
}

// --- waiting ---

bool FabricConnection::front_is_ready() const {
  if (arrived_.empty()) return false;
  const auto* const body = std::get_if<std::shared_ptr<ArrivingBody>>(&arrived_.front());
  return body == nullptr || traffic_->is_complete(**body);
}

bool FabricConnection::has_other_news() const noexcept {
  if (bodies_refused_.pending() && traffic_->has_room()) {
    bodies_refused_.tell();
    return true;
  }
  return *unseen_reads_ > 0 || traffic_->ended() != seen_ended_ || traffic_->broken() ||
         (!reads_only_ && front_is_ready());
}

bool FabricConnection::readable() const {
  if (StreamConnection::readable()) return true;
  traffic_->progress();
  return has_other_news();
}

bool FabricConnection::in_bulk() const { return StreamConnection::in_bulk() || body_bytes_ + read_bytes_ >= kBulk; }

bool FabricConnection::prepare_sleep() {
  if (!StreamConnection::prepare_sleep()) return false;
  for (int turn = 0; turn < kSleepTurns && !has_other_news(); ++turn) {
    if (traffic_->may_sleep()) return true;
  }
  wake();
  return false;
}

}  // namespace crossdock::transport::fabric
