#include "connection.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <list>
#include <stdexcept>

#include "transport/net/records.h"

namespace crossdock::transport::ucx {
namespace {

constexpr const char* kThisConnection = "this ucx connection";
constexpr int kControlsPerTurn = 64;
/// What a part of an answer counts for in pushed(), besides its bytes: it costs about as much time.
constexpr std::uint64_t kPartBytes = 200;
/// Where no message has begun, a client probes this many times less often: many may be idle.
constexpr int kIdleProbes = 5;
/// prepare_sleep() gives up after so many turns in which UCX was busy with itself.
constexpr int kArmingTurns = 64;

Agreement agreement_of(const Introduction& introduction) {
  Agreement agreement = introduction.agreement;
  agreement.error_messages = introduction.both(net::kFeatureErrorMessages);
  agreement.counted_leases = introduction.both(net::kFeatureCountedLeases);
  agreement.cancel = introduction.both(net::kFeatureCancel);
  agreement.parameters = introduction.both(net::kFeatureParameters);
  agreement.same_user = false;
  agreement.carrier = "ucx";
  return agreement;
}

/// The region of every address of a peer strictly as specified.
const std::shared_ptr<const PeerRegion> kAllMemory =
    std::make_shared<const PeerRegion>(0, std::numeric_limits<std::uint64_t>::max(), nullptr);

/// Reads that were begun together.
class UcxReading final : public Reading {
 public:
  UcxReading(const std::shared_ptr<Worker>& worker, std::shared_ptr<Outcome> outcome)
      : where_(worker->where()), worker_(worker), outcome_(std::move(outcome)) {}
  UcxReading(const UcxReading&) = delete;
  UcxReading& operator=(const UcxReading&) = delete;
  ~UcxReading() override { outcome_->see(); }

  bool done() override {
    const std::shared_ptr<Worker> worker = worker_.lock();
    if (!outcome_->over() && worker != nullptr) worker->progress();
    if (!outcome_->over()) return false;
    outcome_->see();
    const ucs_status_t status = outcome_->status();
    if (status == UCS_OK) return true;
    if (worker != nullptr) worker->throw_failure();  // the reason, where it is an error of the peer's
    throw ConnectionError("the connection to " + where_ + " ended in the middle of a read" +
                          (worker == nullptr ? "" : ": " + worker->context().library().text(status)));
  }

 private:
  const std::string where_;
  const std::weak_ptr<Worker> worker_;  // a reading must not keep UCX from its end
  const std::shared_ptr<Outcome> outcome_;
};

/// A read of memory that the peer hasn't offered.
class RefusedReading final : public Reading {
 public:
  explicit RefusedReading(std::string why) : why_(std::move(why)) {}
  bool done() override { throw ProtocolError(why_); }

 private:
  const std::string why_;
};

}  // namespace

UcxConnection::UcxConnection(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint,
                             const Introduction& introduction, const UcxOptions& options,
                             std::shared_ptr<ClosingEnds> closing, SpecifiedMemory memory)
    : agreement_(agreement_of(introduction)),
      send_limit_(std::min(options.max_message, introduction.peer_max_message)),
      body_limit_(introduction.peer_max_body),
      in_pieces_(introduction.both(net::kFeaturePieces) && worker->max_header() >= kMaxPieceHeader),
      where_(agreement_.peer),
      closing_(std::move(closing)),
      specified_(std::move(memory)),
      worker_(std::move(worker)),
      endpoint_(std::move(endpoint)),
      keepalive_s_(static_cast<int>(options.keepalive.count())),
      regions_(where_, options.max_regions) {
  endpoint_->limit_copies(options.queue_bytes);
  // A server's bodies, and UCX's probes by the sockets that the server opens, find a client that has vanished.
  if (closing_ == nullptr && !agreement_.as_specified && keepalive_s_ > 0) {
    probes_.emplace(worker_->descriptor(), keepalive_s_, where_);
  }
}

UcxConnection::~UcxConnection() {
  if (fork_.in_child()) return;  // the parent continues: UCX's objects are its own
  key_.reset();                  // before its endpoint
  try {
    using Until = UcxClosingEnd::Until;
    auto until = closing_ ? Until::kTaken : Until::kSent;
    if (agreement_.as_specified) until = Until::kFlushed;
    // A server may be reading or writing memory here: a client that leaves in the middle of a stream is written to.
    const bool in_use = closing_ ? !offered_->empty() : !idle_ && !agreement_.as_specified;
    const bool peer_failed = failure_ && is_of_peer(failure_->first);
    if (!peer_failed && in_use) until = Until::kLeft;
    worker_->receive_into(nullptr);  // what is dropped takes no memory of the reader's
    std::unique_ptr<ClosingEnd> end = std::make_unique<UcxClosingEnd>(
        std::move(worker_), std::move(endpoint_), until, offered_, sent_.load(), window_.taken(), goodbye_.load());
    if (end->over() || (closing_ && closing_->add(end))) return;
    std::list<std::unique_ptr<ClosingEnd>> one;
    one.push_back(std::move(end));
    wait_for_all(std::move(one));
  } catch (...) {
    // Without memory, the end is closed by force.
  }
}

// --- the sending half ---

/// Returns what `begin` does: false or null if there is no room. Then progress is made here, and `begin` is called once
/// more. The caller may do nothing but try again, and the other half may have no work left: nobody else would make
/// progress then, and there would never be room.
template <typename Begin>
auto UcxConnection::begin_or_progress(Begin begin) {
  auto begun = begin();
  if (begun) return begun;
  worker_->push();
  return begin();
}

/// Counts a message of `size` bytes, and sends it.
template <typename Send>
bool UcxConnection::send_counted(std::uint64_t size, Send send) {
  if (gone_.load(std::memory_order_relaxed)) throw_gone();
  // Counted first: the other thread must not see it acknowledged before it is counted.
  sent_.fetch_add(1, std::memory_order_relaxed);
  idle_ = false;
  try {
    if (begin_or_progress(send)) {
      pushed_.fetch_add(size, std::memory_order_relaxed);
      return true;
    }
  } catch (const ConnectionError&) {
    sent_.fetch_sub(1, std::memory_order_relaxed);
    throw_gone();
  } catch (...) {
    sent_.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
  sent_.fetch_sub(1, std::memory_order_relaxed);
  refused_until_.store(pieces_ahead_.goal(), std::memory_order_relaxed);
  refused_bytes_.store(size, std::memory_order_relaxed);
  refusals_.add();
  wake_if([this] { return has_room_again(); });
  return false;
}

/// Wakes the receiving half if it sleeps and `news` is true: it may have looked for that before this half asked for it,
/// and then nothing more happens that would wake it. Whether it sleeps is found first. So what the receiving half did
/// before it fell asleep is seen here; and if it falls asleep later, it sees what this half has stored.
template <typename News>
void UcxConnection::wake_if(News news) {
  if (worker_->sleeps() && news()) worker_->signal();
}

/// Sends a body by `send`, which gets what bounds its pieces; null: the peer knows none.
template <typename Send>
bool UcxConnection::send_body_counted(std::uint64_t size, Send send) {
  fork_.check(kThisConnection);
  if (size > body_limit_) {
    throw InvalidArgumentError("a body of " + std::to_string(size) + " bytes is over the limit of " +
                               std::to_string(body_limit_) + " bytes of " + where_ +
                               "; raise UcxOptions::max_body there");
  }
  if (!in_pieces_) return send_counted(size, [&] { return send(nullptr); });
  pieces_ahead_.begin(sent_.load(std::memory_order_relaxed) + 1, window_.taken());
  return send_counted(size, [&] { return send(&pieces_ahead_); });
}

template <typename Send>
bool UcxConnection::send_message(ByteSpan head, ByteSpan tail, Send send) {
  fork_.check(kThisConnection);
  if (head.size() > send_limit_ || tail.size() > send_limit_ - head.size()) {
    throw InvalidArgumentError("a message of " + std::to_string(head.size()) + " + " + std::to_string(tail.size()) +
                               " bytes is over the limit of " + std::to_string(send_limit_) + " bytes agreed with " +
                               where_ +
                               "; raise UcxOptions::max_message at both ends, or max_request where the peer listens");
  }
  return send_counted(head.size() + tail.size(), send);
}

bool UcxConnection::send(ByteSpan head, ByteSpan tail) {
  return send_message(head, tail, [&] { return endpoint_->send_untagged(head, tail); });
}

bool UcxConnection::send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  return send_message(head, tail, [&] { return endpoint_->send_tagged(tag, head, tail); });
}

bool UcxConnection::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  return send_body_counted(size_of(parts),
                           [&](PiecesAhead* ahead) { return endpoint_->send_body(tag, parts, keep, ahead); });
}

bool UcxConnection::reaches(const device::Device& device) const noexcept {
  if (device == device::Device{}) return true;
  // Between its parts is padding, which is in memory of the host: only pieces keep the two apart.
  return in_pieces_ && worker_->context().memory_type(device.type).has_value();
}

bool UcxConnection::send_device_body(std::uint64_t tag, std::span<const ByteSpan> parts, const device::Device& device,
                                     std::shared_ptr<const void> keep) {
  if (!reaches(device) || parts.size() > kMaxDeviceParts) {
    return Connection::send_device_body(tag, parts, device, std::move(keep));
  }
  std::uint64_t size = 0;
  for (const ByteSpan part : parts) size += align_up(part.size(), 64);
  const ucs_memory_type_t type = *worker_->context().memory_type(device.type);
  return send_body_counted(
      size, [&](PiecesAhead* ahead) { return endpoint_->send_device_body(tag, parts, type, keep, ahead); });
}

std::string UcxConnection::why_gone(bool said_goodbye) const {
  if (said_goodbye) return where_ + " has closed the connection";
  const auto why = endpoint_->failure();
  const std::string of_ucx = why ? " (UCX: " + *why + ")" : "";
  if (endpoint_->body_failed()) {
    return "the connection to " + where_ + " has ended: a body in memory of a device couldn't be sent" + of_ucx;
  }
  return where_ + " is gone: it has exited or was killed, or the network lost it" + of_ucx;
}

void UcxConnection::throw_gone() {
  gone_.store(true, std::memory_order_relaxed);
  throw ConnectionError(why_gone(goodbye_.load(std::memory_order_relaxed)));
}

bool UcxConnection::flush() {
  fork_.check(kThisConnection);
  if (gone_.load(std::memory_order_relaxed) || endpoint_->failure()) throw_gone();
  if (worker_->sends() == 0) return true;
  worker_->push();
  return worker_->sends() == 0;
}

std::size_t UcxConnection::in_flight() {
  flush();
  if (agreement_.as_specified) return worker_->sends();
  return window_.in_flight(sent_.load(std::memory_order_relaxed));
}

bool UcxConnection::below_window(std::size_t window) {
  if (window == 0) throw InvalidArgumentError("a window must be at least 1 message");
  flush();
  if (agreement_.as_specified) {
    const bool below = worker_->sends() < window;
    specified_window_.store(below ? 0 : window, std::memory_order_release);
    if (!below) wake_if([this] { return window_opened(); });
    return below;
  }
  const bool below = window_.below(window, sent_.load(std::memory_order_relaxed));
  if (!below) wake_if([this] { return window_opened(); });
  if (told_window_ == window) return below;
  try {
    if (endpoint_->send_control(encode(Control{ControlKind::kWindow, window}))) told_window_ = window;
  } catch (const ConnectionError&) {
    throw_gone();
  }
  return below;
}

Ways UcxConnection::ways_of(const device::Region& region) const {
  if (region.kind() == device::RegionKind::kFile) return {};
  if (region.kind() == device::RegionKind::kDevice) {
    return reaches(region.context()->device()) ? agreement_.ways & Way::kMessage : Ways{};
  }
  const Ways ways = Connection::ways_of(region);
  return agreement_.as_specified && specified_.region.lock().get() != &region ? ways & Way::kMessage : ways;
}

std::optional<std::uint64_t> UcxConnection::announce(std::uint16_t number,
                                                     const std::shared_ptr<const device::Region>& region) {
  if (!agreement_.ways.has(Way::kRead)) return Connection::announce(number, region);
  fork_.check(kThisConnection);
  // The client has the region's key from its URI. The region's registration lasts as long as the region.
  if (agreement_.as_specified) {
    return reinterpret_cast<std::uintptr_t>(registered(worker_->context().registrations(), region)->data);
  }
  if (gone_.load(std::memory_order_relaxed)) throw_gone();
  const std::uint64_t base = offered_->add(number, region);
  const auto message = encode(RegionAnnouncement{.number = number, .base = base, .size = region->size()});
  try {
    if (begin_or_progress([&] { return endpoint_->send_control(message); })) return base;
  } catch (const ConnectionError&) {
    throw_gone();
  }
  offered_->remove(number);
  return std::nullopt;
}

bool UcxConnection::retire(std::uint16_t number) {
  if (!agreement_.ways.has(Way::kRead)) return Connection::retire(number);
  fork_.check(kThisConnection);
  if (agreement_.as_specified) return true;
  offered_->check(number);
  const auto message = encode(Control{ControlKind::kRetire, number});
  try {
    if (!begin_or_progress([&] { return endpoint_->send_control(message); })) return false;
  } catch (const ConnectionError&) {
    throw_gone();
  }
  offered_->remove(number);
  return true;
}

// --- the receiving half ---

std::shared_ptr<const PeerRegion> UcxConnection::peer_region(std::uint64_t address, int timeout_ms,
                                                             const InterruptHook& interrupted) {
  if (!agreement_.ways.has(Way::kRead)) {
    if (!agreement_.as_specified) return Connection::peer_region(address, timeout_ms, interrupted);
    throw UnsupportedError(where_ + " sends bodies by address, but its URI, as it was given, has no remote_handle");
  }
  // Nothing but UCX knows how far the memory of a remote_handle reaches.
  if (agreement_.as_specified) return kAllMemory;
  return regions_.at(address);
}

std::unique_ptr<Reading> UcxConnection::read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep) {
  if (!agreement_.ways.has(Way::kRead)) return Connection::read(parts, std::move(keep));
  fork_.check(kThisConnection);
  if (gone_.load(std::memory_order_relaxed)) throw_gone();
  if (agreement_.as_specified) return read_as_specified(parts, keep);
  for (const ReadPart& part : parts) {
    if (regions_.find(part.address, part.length) != nullptr) continue;
    return std::make_unique<RefusedReading>("a read of " + std::to_string(part.length) + " bytes at address " +
                                            std::to_string(part.address) + " is outside every region that " + where_ +
                                            " has announced");
  }
  try {
    auto outcome = begin_or_progress([&] { return endpoint_->ask(parts, keep); });
    if (outcome == nullptr) return nullptr;
    return std::make_unique<UcxReading>(worker_, std::move(outcome));
  } catch (const ConnectionError&) {
    throw_gone();
  }
}

/// Reads with the key of the URI.
std::unique_ptr<Reading> UcxConnection::read_as_specified(std::span<const ReadPart> parts,
                                                          const std::shared_ptr<const void>& keep) {
  try {
    // Not before the server's first message: UCX 1.22 can't use the key until then.
    if (key_ == nullptr) key_ = std::make_unique<const RemoteKey>(*endpoint_, specified_.key);
    std::vector<RemotePart> remote;
    remote.reserve(parts.size());
    for (const ReadPart& part : parts) remote.push_back({key_.get(), part.address, part.length, part.to});
    auto outcome = begin_or_progress([&] { return endpoint_->read(remote, keep); });
    if (outcome == nullptr) return nullptr;
    return std::make_unique<UcxReading>(worker_, std::move(outcome));
  } catch (const ConnectionError&) {
    throw_gone();
  }
}

std::optional<Incoming> UcxConnection::receive() {
  fork_.check(kThisConnection);
  if (failure_) throw_error(failure_->first, failure_->second);
  try {
    return take();
  } catch (const Error& error) {
    failure_.emplace(error.code(), error.what());  // an error is permanent
    throw;
  }
}

std::optional<Incoming> UcxConnection::take() {
  refusals_.forget();
  if (std::exchange(window_told_, false)) {
    if (agreement_.as_specified && window_opened()) specified_window_.store(0, std::memory_order_relaxed);
    window_.forget_opened();
  }
  bool progressed = false;
  std::size_t parts = 0;  // of answers
  for (int controls = 0; controls < kControlsPerTurn && parts < OfferedMemory::kPartsPerTurn;) {
    // Before take(): the messages that came before the failure are all there by then.
    const bool failed = endpoint_->failure().has_value();
    std::optional<Received> got;
    // Any message may be a request.
    if (failed || offered_->has_room()) got = worker_->take();
    if (got && got->kind == MessageKind::kControl) {
      if (agreement_.as_specified) {
        throw ProtocolError(where_ + " sent an active message with the id 1, but it is strictly as specified: " +
                            "it began without a handshake");
      }
      parts += on_control(got->bytes);
      ++controls;
      continue;
    }
    if (got) {
      if (acknowledgements_.count(got->bytes.size())) acknowledge();
      const bool tagged = got->kind == MessageKind::kTagged;
      Incoming message{.tagged = tagged, .tag = got->tag, .bytes = got->bytes, .owner = {}};
      // UCX doesn't tell a body from another tagged message, and both are in memory of their own.
      (tagged ? message.owner : kept_) = std::move(got->owner);
      return message;
    }
    if (failed || has_ended()) throw_end();
    if (progressed) break;
    worker_->progress();
    progressed = true;
  }
  // Not at once: it would delay the next message, at both ends.
  if (acknowledgements_.overdue()) acknowledge();
  return std::nullopt;
}

/// Returns how many parts were sent as an answer.
std::size_t UcxConnection::on_control(ByteSpan message) {
  RegionAnnouncement region;
  if (decode(message, &region)) {
    check_regions_agreed();
    regions_.add(region.number, region.base, region.size);
    return 0;
  }
  if (message.size() > kControlBytes && kind_of(message) == ControlKind::kRead) return answer(message);
  Control control;
  if (!decode(message, &control)) {
    throw ProtocolError(where_ + " sent a control message of " + std::to_string(message.size()) +
                        " bytes that this end doesn't know");
  }
  switch (control.kind) {
    case ControlKind::kTaken: window_.taken(control.number, sent_.load(std::memory_order_relaxed), where_); break;
    case ControlKind::kWindow:
      if (acknowledgements_.set_window(control.number, where_)) acknowledge();
      break;
    case ControlKind::kGoodbye:
      if (goodbye_.load(std::memory_order_relaxed) || control.number < acknowledgements_.taken()) {
        throw ProtocolError(where_ + " said goodbye twice, or after fewer messages than it has sent");
      }
      last_ = control.number;
      goodbye_.store(true, std::memory_order_relaxed);
      gone_.store(true, std::memory_order_relaxed);
      break;
    case ControlKind::kRetire:
      check_regions_agreed();
      if (control.number > std::numeric_limits<std::uint16_t>::max()) {
        throw ProtocolError(where_ + " retired region " + std::to_string(control.number) + "; numbers have 16 bits");
      }
      regions_.remove(static_cast<std::uint16_t>(control.number));
      break;
    case ControlKind::kRegion:
    case ControlKind::kRead: break;  // have layouts of their own
  }
  return 0;
}

/// Throws unless the peer may announce and retire regions: a server may, where the client reads.
void UcxConnection::check_regions_agreed() const {
  if (closing_ == nullptr && agreement_.ways.has(Way::kRead)) return;
  throw ProtocolError(where_ + " announced or retired a region, which this end didn't agree to");
}

std::size_t UcxConnection::answer(ByteSpan request) {
  try {
    const OfferedMemory::Answered answered = offered_->answer(*endpoint_, request);
    pushed_.fetch_add(answered.bytes + answered.parts * kPartBytes, std::memory_order_relaxed);
    return answered.parts;
  } catch (const ProtocolError& error) {
    throw ProtocolError(where_ + ": " + error.what());
  } catch (const ConnectionError&) {  // receive() says so after the last message
    return 0;
  }
}

void UcxConnection::acknowledge_all() {
  idle_ = true;
  acknowledge();
}

void UcxConnection::acknowledge() {
  if (acknowledgements_.owed() && !agreement_.as_specified && !failure_) tell_taken();
}

void UcxConnection::tell_taken() {
  try {
    if (!endpoint_->send_control(encode(Control{ControlKind::kTaken, acknowledgements_.taken()}))) {
      return acknowledgements_.postpone();
    }
  } catch (const ConnectionError&) {
    return;  // receive() says so after the last message
  }
  acknowledgements_.acknowledged();
}

/// Whether the peer has said goodbye, and all of its messages were taken.
bool UcxConnection::has_ended() const noexcept {
  return goodbye_.load(std::memory_order_relaxed) && acknowledgements_.taken() >= last_;
}

void UcxConnection::throw_end() {
  acknowledge();  // the peer waits for it
  gone_.store(true, std::memory_order_relaxed);
  std::string what = why_gone(has_ended());
  if (!has_ended() && worker_->in_message()) what += ", in the middle of a message";
  throw ConnectionError(what);
}

// --- waiting ---

bool UcxConnection::window_opened() const noexcept {
  if (!agreement_.as_specified) return window_.opened();
  const std::size_t window = specified_window_.load(std::memory_order_acquire);
  return window != 0 && worker_->sends() < window;
}

/// Whether there is room for the message that was refused last.
bool UcxConnection::has_room_again() const {
  return window_.taken() >= refused_until_.load(std::memory_order_relaxed) &&
         endpoint_->room_for(refused_bytes_.load(std::memory_order_relaxed));
}

bool UcxConnection::room_came() const {
  if (!refusals_.pending() || !has_room_again()) return false;
  refusals_.tell();
  return true;
}

/// Whether messages that have arrived are to be taken now.
bool UcxConnection::takes_messages() const noexcept { return !reads_only_ && offered_->has_room(); }

bool UcxConnection::news() const {
  if (window_opened()) window_told_ = true;
  if (room_came() || window_told_) return true;
  // After a goodbye, the messages before it are still to come.
  const bool ended = goodbye_.load(std::memory_order_relaxed) ? has_ended() : gone_.load(std::memory_order_relaxed);
  return failure_.has_value() || (takes_messages() && worker_->ready()) || worker_->unseen_reads() > 0 || ended ||
         endpoint_->failure().has_value();
}

bool UcxConnection::readable() const {
  fork_.check(kThisConnection);
  if (news()) return true;
  worker_->progress();
  return news() || (acknowledgements_.overdue() && !agreement_.as_specified);
}

bool UcxConnection::in_bulk() const { return worker_->expected_bytes() >= kBulk; }

bool UcxConnection::prepare_sleep() {
  fork_.check(kThisConnection);
  acknowledge();
  if (probes_) probes_->set(worker_->in_message() ? keepalive_s_ : kIdleProbes * keepalive_s_);
  for (int turn = 0; turn < kArmingTurns; ++turn) {
    if (news()) return false;
    if (worker_->arm(!takes_messages())) {
      // The other half may have made progress, or have been refused, since news() looked, and signalled nobody.
      if (!news()) return true;
      worker_->disarm();
      return false;
    }
    worker_->progress();
  }
  return false;
}

void UcxConnection::wake() {
  fork_.check(kThisConnection);
  worker_->disarm();
  // An end that only receives has sent nothing that the network could fail to deliver, and UCX would never learn that
  // the peer has vanished. So something is sent again.
  if (probes_ && probes_->due() && !gone_.load(std::memory_order_relaxed)) tell_taken();
}

}  // namespace crossdock::transport::ucx
