#include "peers/link.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/amounts.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"
#include "crossdock/version.h"
#include "device/leak.h"
#include "peers/received_frames.h"

namespace crossdock::peers {
namespace {

constexpr const char* kThisPeer = "this Peer";
/// Frames by value of so many bytes together are copied by the caller of send().
constexpr std::uint64_t kCopiedAtOnce = 64 << 10;
/// Smaller frames that must be copied into a pool share a block of up to kGathered bytes: a block costs a descriptor at
/// both ends, and a mapping.
constexpr std::uint64_t kOwnBlock = 1 << 20;
constexpr std::uint64_t kGathered = 16 << 20;
/// While more messages than this wait to be sent, a send() isn't over.
constexpr std::size_t kAhead = 16;
constexpr int kMessagesPerTurn = 64;
/// After so many frames other links have their turn.
constexpr std::size_t kFramesPerTurn = 16'384;
/// The time that an announcement may take after the message that needs it.
constexpr std::int64_t kAnnouncementMs = 10'000;

// Precise only to some milliseconds, but nearly free.
std::int64_t now_ms() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

/// The regions that are mapped at once, each with a descriptor, unless the user says how many.
std::uint32_t default_regions() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 16;
  return static_cast<std::uint32_t>(std::clamp<rlim_t>(limit.rlim_cur / 8, 16, 4096));
}

/// Whether frames go by address in either direction.
bool maps(const transport::Agreement& agreement) noexcept {
  return agreement.ways.has(transport::Way::kMap) && agreement.same_user;
}

/// How much of a window may have been taken before the peer is told.
constexpr std::uint64_t told_late(std::uint64_t window) noexcept { return window / 4; }

/// Whether a body may be sent while `ahead` bytes weren't taken, as far as the peer has told. A body of any size may be
/// while it needn't have told.
constexpr bool fits(std::uint64_t ahead, std::uint64_t size, std::uint64_t window) noexcept {
  return ahead <= told_late(window) || (ahead <= window && size <= window - ahead);
}

}  // namespace

std::uint32_t regions_taken(const PeerOptions& options) noexcept {
  return options.max_regions != 0 ? options.max_regions : default_regions();
}

/// A message on its way out. `done` is guarded by the link's mutex, and is called once. The other members belong to the
/// thread that sends it, then to the copy thread until `ready` is set (with the mutex held), then to the I/O thread.
struct Link::Outgoing {
  struct Item {
    std::uint64_t size = 0;
    ByteSpan value;                     ///< By value.
    std::optional<SharedFrame> shared;  ///< By address.
  };
  std::vector<std::byte> meta;
  std::vector<OutgoingFrame> given;  ///< As they were given; empty: nothing is read there any more.
  std::vector<Item> items;
  std::vector<std::byte> copied;  ///< Small frames by value.
  bool in_place = false;          ///< Some values are in the user's memory.
  std::uint64_t bytes_copied = 0;
  bool ready = false;
  Done done;
  // Of the I/O thread:
  std::size_t placed = 0;  ///< So many items have an entry.
  std::vector<wire::FrameEntry> entries;
  std::vector<std::byte> start;
  std::atomic<bool> sent{false};  ///< Nothing is read any more.
};

/// Keeps what a body is sent from, until that is over.
struct Link::BodyKeeper {
  std::shared_ptr<Outgoing> message;
  std::weak_ptr<Link> link;
  BodyKeeper(std::shared_ptr<Outgoing> sending, std::weak_ptr<Link> by)
      : message(std::move(sending)), link(std::move(by)) {}
  BodyKeeper(const BodyKeeper&) = delete;
  BodyKeeper& operator=(const BodyKeeper&) = delete;
  ~BodyKeeper() {
    if (const auto alive = link.lock()) alive->values_sent(*message);
  }
};

/// Keeps a frame in memory of the peer.
struct Link::FrameLease final : MappedFrame {
  FrameLease(std::shared_ptr<Link> by, std::uint32_t in, std::shared_ptr<const transport::PeerRegion> memory)
      : MappedFrame(memory->mapped), link(std::move(by)), number(in), peer_region(std::move(memory)) {}
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  ~FrameLease() override {
    if (link->in_child()) {
      device::leak(std::move(link));  // its locks may be held for ever there
      return;
    }
    // Before the peer is told: it may announce another region then.
    MappedFrame::region.reset();
    peer_region.reset();
    link->frame_released(number);
  }
  std::shared_ptr<Link> link;
  const std::uint32_t number;  // of the region
  std::shared_ptr<const transport::PeerRegion> peer_region;
};

void Link::Calls::run() noexcept {
  for (auto& [done, error] : over) {
    if (done) done(error);
  }
  for (Notify& call : notify) {
    if (call) call();
  }
}

Link::Link(std::unique_ptr<transport::Connection> connection, const PeerOptions& options,
           std::shared_ptr<LinkServices> services, std::shared_ptr<const void> place)
    : options_(options),
      max_regions_(regions_taken(options)),
      services_(std::move(services)),
      connection_(std::move(connection)),
      agreement_(connection_->agreement()),
      place_(std::move(place)),
      waker_(services_->waker, this),
      regions_(options.lease_limit) {}

Link::~Link() { regions_.abandon(); }

// --- users ---

void Link::check_usable() const {
  if (closing_) throw ClosedError("this Peer was closed");
  if (failure_) std::rethrow_exception(failure_);
}

/// The bytes of a message's frames that are smaller than `share_from`.
std::uint64_t Link::small_bytes(const Outgoing& message) const noexcept {
  std::uint64_t small = 0;
  for (const OutgoingFrame& frame : message.given) {
    if (frame.size < options_.share_from) small += frame.size;
  }
  return small;
}

/// Whether frames that are smaller than `share_from`, and `small` bytes together, go by address.
bool Link::shares_small(std::uint64_t small) const noexcept {
  return shares_ && small > kCopiedAtOnce && small >= options_.share_from;
}

/// For a message whose frames go by value: copies them if they are small, and otherwise sends them from where they are.
void Link::make_ready_here(Outgoing& message) const {
  std::uint64_t size = 0;
  for (const OutgoingFrame& frame : message.given) size += frame.size;
  message.in_place = size > kCopiedAtOnce;
  if (!message.in_place) message.copied.resize(size);
  std::byte* to = message.copied.data();
  for (const OutgoingFrame& frame : message.given) {
    const std::byte* from = frame.data;
    if (!message.in_place && frame.size > 0) {
      std::memcpy(to, frame.data, frame.size);
      from = std::exchange(to, to + frame.size);
    }
    message.items.push_back({frame.size, {from, frame.size}, std::nullopt});
  }
  message.ready = true;
}

bool Link::send(std::span<const OutgoingFrame> frames, ByteSpan meta, Done done) {
  fork_.check(kThisPeer);
  if (frames.size() > open_.max_frames) {
    throw InvalidArgumentError("a message of " + std::to_string(frames.size()) + " frames is over the limit of " +
                               agreement_.peer + ": " + std::to_string(open_.max_frames) +
                               " (PeerOptions::max_frames there)");
  }
  auto message = std::make_shared<Outgoing>();
  message->meta.assign(meta.begin(), meta.end());
  message->given.assign(frames.begin(), frames.end());
  message->items.reserve(frames.size());
  std::uint64_t size = wire::kHeaderBytes + frames.size() * wire::kEntryBytes + meta.size();
  const bool shares_small_ones = shares_small(small_bytes(*message));
  bool copies = false;  // a copy thread finds the frames' memory, or copies it
  for (const OutgoingFrame& frame : frames) {
    const bool by_address = shares_ && (shares_small_ones || frame.size >= options_.share_from);
    copies |= by_address;
    if (!by_address) size = align_up(size, wire::kAlignment) + frame.size;
  }
  if (size > open_.max_body) {
    throw InvalidArgumentError("a message of " + std::to_string(size) + " bytes by value is over the limit of " +
                               agreement_.peer + ": " + std::to_string(open_.max_body) +
                               " (PeerOptions::max_message there)");
  }
  std::vector<OutgoingFrame> dropped_without_the_lock;
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    check_usable();
    if (!copies) {
      make_ready_here(*message);
      if (!message->in_place) {
        dropped_without_the_lock.swap(message->given);
        over = outbox_.size() < kAhead;
      }
    }
    if (!over) message->done = std::move(done);
    outbox_.push_back(std::move(message));
    if (copies && !preparing_) {
      try {
        services_->copy([self = shared_from_this()] { self->prepare_all(); });
      } catch (...) {
        outbox_.pop_back();
        throw;
      }
      preparing_ = true;
    }
  }
  if (!copies) waker_.notify();
  return over;
}

/// On a copy thread: makes messages ready, in their order, as long as there are any.
void Link::prepare_all() noexcept {
  for (;;) {
    std::shared_ptr<Outgoing> message;
    {
      const std::lock_guard lock(mutex_);
      const auto next = std::ranges::find_if(outbox_, [](const auto& waiting) { return !waiting->ready; });
      if (next == outbox_.end()) {
        preparing_ = false;
        return;
      }
      message = *next;
    }
    prepare(*message);
    // Where the peer has no room for its regions the message goes by value, which its limit may not allow: its sender
    // waits to be told.
    std::uint64_t size = wire::kHeaderBytes + message->meta.size();
    for (const Outgoing::Item& item : message->items) size += wire::kEntryBytes + wire::kAlignment + item.size;
    const bool fits_by_value = size <= open_.max_body;
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      message->ready = true;
      stats_.bytes_copied += message->bytes_copied;
      if (fits_by_value && !message->in_place && message->done && outbox_.size() <= kAhead) {
        calls.over.emplace_back(std::exchange(message->done, nullptr), nullptr);
      }
    }
    calls.run();
    waker_.notify();
  }
}

/// Finds the frames' memory, or copies it. What the system refuses to share goes by value from where it is.
void Link::prepare(Outgoing& message) const noexcept {
  const std::uint64_t small = small_bytes(message);
  const FrameSharer& sharer = services_->sharer;
  const auto by_value_in_place = [&](std::size_t index) {
    message.items[index].value = {message.given[index].data, message.given[index].size};
    message.in_place = true;
  };
  std::vector<std::size_t> gathered;
  std::uint64_t gathered_bytes = 0;
  const auto copy = [&](std::span<const std::size_t> indices) noexcept {
    try {
      std::vector<OutgoingFrame> frames;
      for (const std::size_t index : indices) {
        const OutgoingFrame& frame = message.given[index];
        frames.push_back({frame.data, frame.size, nullptr});
        message.bytes_copied += frame.size;
      }
      std::vector<SharedFrame> shared = sharer.copy(frames);
      for (std::size_t i = 0; i < indices.size(); ++i) message.items[indices[i]].shared = std::move(shared[i]);
    } catch (const std::exception&) {
      for (const std::size_t index : indices) by_value_in_place(index);
    }
  };
  for (const OutgoingFrame& frame : message.given) message.items.push_back({frame.size, {}, std::nullopt});  // reserved
  for (std::size_t i = 0; i < message.given.size(); ++i) {
    const OutgoingFrame& frame = message.given[i];
    if (frame.size == 0) continue;
    try {
      if (frame.size >= options_.share_from) {
        if ((message.items[i].shared = sharer.find(frame))) continue;
        if (frame.size >= kOwnBlock) {
          copy(std::array{i});
          continue;
        }
      } else if (!shares_small(small)) {
        if (small > kCopiedAtOnce) {
          by_value_in_place(i);
          continue;
        }
        if (message.copied.capacity() < small) message.copied.reserve(small);
        const std::size_t at = message.copied.size();
        message.copied.insert(message.copied.end(), frame.data, frame.data + frame.size);
        message.items[i].value = {message.copied.data() + at, frame.size};
        continue;
      }
      if (!gathered.empty() && gathered_bytes + frame.size > kGathered) {
        copy(gathered);
        gathered.clear();
        gathered_bytes = 0;
      }
      gathered.push_back(i);
      gathered_bytes += frame.size;
    } catch (const std::bad_alloc&) {
      by_value_in_place(i);
    }
  }
  if (!gathered.empty()) copy(gathered);
  if (!message.in_place) message.given.clear();
}

bool Link::readable() const noexcept { return !inbox_.empty() || failure_ || closing_; }

std::optional<Message> Link::try_recv() {
  fork_.check(kThisPeer);
  std::optional<Message> message;
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) throw ClosedError("this Peer was closed");
    if (inbox_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    message.emplace(std::move(inbox_.front().message));
    ++taken_messages_;
    taken_bytes_ += inbox_.front().bytes;
    inbox_.pop_front();
    due = return_due();
  }
  if (due) waker_.notify();
  return message;
}

/// Whether the peer must be told what was taken. Call it with the lock held.
bool Link::return_due() const noexcept {
  return first_released_ != nullptr || taken_messages_ - told_messages_ > told_late(options_.window_messages) ||
         taken_bytes_ - told_bytes_ > told_late(options_.window_bytes);
}

void Link::when_readable(Notify notify) {
  fork_.check(kThisPeer);
  {
    const std::lock_guard lock(mutex_);
    if (!notify || !readable()) {
      notify_.swap(notify);
      return;
    }
  }
  notify();
}

void Link::close(Done done) {
  fork_.check(kThisPeer);
  std::deque<Arrived> dropped_without_the_lock;
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(closing_, true)) closing_since_ = now_ms();
    if (close_over_ || aborted_ || failure_ || over_) {
      calls.over.emplace_back(std::move(done), nullptr);
    } else {
      close_done_.push_back(std::move(done));
    }
    // The peer waits for room, as if they had been received.
    taken_messages_ += inbox_.size();
    for (const Arrived& arrived : inbox_) taken_bytes_ += arrived.bytes;
    dropped_without_the_lock.swap(inbox_);
    if (notify_) calls.notify.push_back(std::exchange(notify_, nullptr));
  }
  calls.run();
  waker_.notify();
}

void Link::abort() noexcept {
  if (fork_.in_child()) return;
  std::deque<Arrived> dropped_without_the_lock;
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) closing_since_ = now_ms();
    closing_ = aborted_ = true;
    dropped_without_the_lock.swap(inbox_);
    drop_outbox(std::make_exception_ptr(ClosedError("this Peer was closed before the message was sent")), &calls);
    if (notify_) calls.notify.push_back(std::exchange(notify_, nullptr));
  }
  calls.run();
  waker_.notify();
}

/// Call it with the lock held. A message of which a part was sent stays: its rest follows.
void Link::drop_outbox(const std::exception_ptr& reason, Calls* calls) noexcept {
  for (const auto& message : outbox_) {
    if (message->done) calls->over.emplace_back(std::exchange(message->done, nullptr), reason);
  }
  calls->dropped.swap(outbox_);  // owners of frames may call this link
  end_close(calls);
}

/// Call it with the lock held.
void Link::end_close(Calls* calls) noexcept {
  close_over_ = true;
  for (Done& done : close_done_) calls->over.emplace_back(std::move(done), close_failure_);
  close_done_.clear();
}

bool Link::closed() const noexcept {
  if (fork_.in_child()) return true;  // the lock may be held for ever
  const std::lock_guard lock(mutex_);
  return closing_;
}

Peer::Stats Link::stats() const {
  fork_.check(kThisPeer);
  const std::lock_guard lock(mutex_);
  Peer::Stats stats = stats_;
  stats.regions_of_peer = regions_held_;
  return stats;
}

std::exception_ptr Link::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Link::frame_held(std::uint32_t region) {
  const std::lock_guard lock(mutex_);
  FramesOf& frames = frames_of_[region];
  frames.region = region;
  if (frames.held++ == 0) ++regions_held_;
  ++frames_held_;
}

/// Call it with the lock held.
void Link::frame_dropped(FramesOf& frames) noexcept {
  if (--frames.held == 0) --regions_held_;
  --frames_held_;
}

void Link::frame_released(std::uint32_t region) noexcept {
  Closing closed_without_the_lock;
  {
    const std::lock_guard lock(mutex_);
    FramesOf& frames = frames_of_.find(region)->second;  // entered when the frame arrived
    frame_dropped(frames);
    if (frames.released++ == 0) frames.next_released = std::exchange(first_released_, &frames);
    if (forgotten_ && frames_held_ == 0) closed_without_the_lock = take_connection();
  }
  waker_.notify();
}

void Link::forget() noexcept {
  waker_.detach();
  Closing closed_without_the_lock;
  const std::lock_guard lock(mutex_);
  forgotten_ = true;
  if (frames_held_ == 0) closed_without_the_lock = take_connection();
}

/// Call it with the lock held.
Link::Closing Link::take_connection() noexcept { return {std::move(connection_), std::move(place_)}; }

void Link::values_sent(Outgoing& message) noexcept {
  message.sent.store(true, std::memory_order_release);
  if (message.in_place) waker_.notify();
}

// --- the I/O thread ---

std::int64_t Link::deadline_ms() const noexcept {
  const std::int64_t region = waiting_ ? waiting_->since + kAnnouncementMs : 0;
  return region == 0 || closing_until_ == 0 ? std::max(region, closing_until_) : std::min(region, closing_until_);
}

bool Link::turn() noexcept {
  if (over_) return false;
  Calls calls;
  bool progress = false;
  try {
    progress |= send_open();
    progress |= receive_some();
    if (opened_) {
      progress |= send_return();
      drop_places();
      // Before messages are sent: they may need the room of these.
      if (regions_.any_free()) progress |= regions_.retire(*connection_, sent_messages_);
      progress |= send_messages(&calls);
      collect_sent(&calls);
      progress |= send_end(&calls);
    }
    bool closing = false;
    bool aborted = false;
    std::int64_t since = 0;
    {
      const std::lock_guard lock(mutex_);
      stats_.regions_with_peer = regions_.size();
      closing = closing_;
      aborted = aborted_;
      since = closing_since_;
    }
    check_closing(closing, aborted, since);
  } catch (const ConnectionError&) {
    end(std::current_exception(), true);
  } catch (...) {
    end(std::current_exception(), false);
  }
  calls.run();
  return progress && !over_;
}

/// Ends a link whose user has closed or aborted it, and whose peer doesn't answer: nothing else would free what it has.
/// A peer that has sent END may hold frames as long as it likes. Where messages are still to be sent, what the peer
/// takes is progress.
void Link::check_closing(bool closing, bool aborted, std::int64_t since) {
  closing_until_ = 0;
  if (!closing || over_ || peer_ended_ || !options_.timeout) return;
  const std::int64_t now = now_ms();
  const std::uint64_t pushed = connection_->pushed();
  if (pushed != progress_pushed_ || peer_took_messages_ != progress_took_) {
    progress_pushed_ = pushed;
    progress_took_ = peer_took_messages_;
    progress_ms_ = now;
  }
  closing_until_ = std::max(since, aborted ? 0 : progress_ms_) + to_ms(options_.timeout);
  if (now < closing_until_) return;
  const auto late = std::make_exception_ptr(TimeoutError(
      agreement_.peer + " took nothing for " + in_seconds(*options_.timeout) + " while this end was closing"));
  {
    const std::lock_guard lock(mutex_);
    if (!close_over_) close_failure_ = late;
  }
  std::rethrow_exception(late);
}

bool Link::send_open() {
  if (open_sent_) return false;
  const std::vector<std::byte> open = wire::encode(wire::Open{.window_messages = options_.window_messages,
                                                              .max_frames = options_.max_frames,
                                                              .window_bytes = options_.window_bytes,
                                                              .max_body = options_.max_message,
                                                              .max_regions = maps(agreement_) ? max_regions_ : 0,
                                                              .software = CROSSDOCK_VERSION});
  open_sent_ = connection_->send(open, {});
  return open_sent_;
}

bool Link::receive_some() {
  bool progress = false;
  std::size_t frames = 0;
  for (int n = 0; n < kMessagesPerTurn && frames < kFramesPerTurn; ++n) {
    if (!waiting_) {
      std::optional<transport::Incoming> incoming = connection_->receive();
      if (!incoming) return progress;
      progress = true;
      if (!incoming->tagged) {
        receive_control(incoming->bytes);
        continue;
      }
      if (!opened_ || incoming->tag != wire::kMessageTag || !incoming->owner || peer_ended_) {
        throw ProtocolError(agreement_.peer + " sent a message of tag " + std::to_string(incoming->tag) +
                            (peer_ended_ ? " after its last one" : ", which isn't expected"));
      }
      waiting_.emplace(Waiting{});
      waiting_->incoming = *std::move(incoming);
      waiting_->body = wire::decode_body(waiting_->incoming.bytes, options_.max_frames);
    }
    if (!regions_known(*waiting_)) {
      if (waiting_->since < 0) waiting_->since = now_ms();
      if (now_ms() - waiting_->since < kAnnouncementMs) return progress;
      throw ProtocolError("a message of " + agreement_.peer + " names a region that it didn't announce");
    }
    frames += waiting_->body.frames.size();
    receive_body(*waiting_);
    waiting_.reset();
    progress = true;
  }
  return progress;
}

void Link::receive_control(ByteSpan message) {
  const wire::Control kind = wire::control_of(message);
  if ((kind == wire::Control::kOpen) == opened_.load()) {
    throw ProtocolError(agreement_.peer + (opened_ ? " sent OPEN twice" : " sent something else before OPEN"));
  }
  switch (kind) {
    case wire::Control::kOpen: return opened_by(wire::decode_open(message));
    case wire::Control::kReturn: {
      const wire::Return returned = wire::decode_return(message);
      if (returned.taken_messages < peer_took_messages_ || returned.taken_messages > sent_messages_ ||
          returned.taken_bytes < peer_took_bytes_ || returned.taken_bytes > sent_bytes_) {
        throw ProtocolError(agreement_.peer + " says that it took messages that it wasn't sent");
      }
      peer_took_messages_ = returned.taken_messages;
      peer_took_bytes_ = returned.taken_bytes;
      for (const wire::Released& released : returned.released) regions_.released(released);
      regions_.peer_took(peer_took_messages_);
      return;
    }
    case wire::Control::kEnd: {
      if (peer_ended_) throw ProtocolError(agreement_.peer + " sent END twice");
      const bool aborted = wire::decode_end(message) == wire::End::kAborted;
      peer_ended_ = true;
      Calls calls;
      {
        const std::lock_guard lock(mutex_);
        if (!failure_) {
          failure_ = std::make_exception_ptr(
              ConnectionError(agreement_.peer + (aborted ? " has ended the connection: an error occurred there, or it "
                                                           "was dropped without close()"
                                                         : " has closed the connection")));
        }
        drop_outbox(failure_, &calls);
        if (notify_) calls.notify.push_back(std::exchange(notify_, nullptr));
      }
      calls.run();
      return;
    }
  }
}

void Link::opened_by(const wire::Open& open) {
  if (open.version != wire::kVersion) {
    throw HandshakeError(agreement_.peer + " speaks version " + std::to_string(open.version) +
                         " of the protocol of peers (Crossdock " + open.software + "), this end version " +
                         std::to_string(wire::kVersion) +
                         " (Crossdock " CROSSDOCK_VERSION "): use one version at both");
  }
  open_ = open;
  shares_ = maps(agreement_) && open.max_regions > 0;
  opened_ = true;
}

/// Call it when the message's regions are known.
void Link::receive_body(const Waiting& whole) {
  const transport::Incoming& incoming = whole.incoming;
  const wire::Body& body = whole.body;
  Arrived arrived;
  arrived.bytes = wire::cost_of(incoming.bytes.size(), body.frames.size());
  Message& message = arrived.message;
  message.meta_ = body.meta;
  message.meta_owner_ = incoming.owner;
  message.frames_.reserve(body.frames.size());
  for (std::size_t i = 0; i < body.frames.size(); ++i) {
    const wire::FrameEntry& entry = body.frames[i];
    Frame frame;
    frame.size = entry.size;
    if (entry.address != 0) {
      auto region = connection_->peer_region(entry.address, 0);
      if (!region->mapped || region->here == nullptr || !region->contains(entry.address, entry.size)) {
        throw ProtocolError("a frame of " + agreement_.peer + " is outside of the region that it names");
      }
      if (region->number != entry.region) {
        throw ProtocolError("a frame of " + agreement_.peer + " names region " + std::to_string(entry.region) +
                            ", but is in region " + std::to_string(region->number));
      }
      frame.data = region->here + (entry.address - region->base);
      frame.mapped = true;
      frame_held(entry.region);
      try {
        frame.owner = std::make_shared<FrameLease>(shared_from_this(), entry.region, std::move(region));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        frame_dropped(frames_of_.find(entry.region)->second);
        throw;
      }
    } else if (entry.size > 0) {
      frame.data = body.values[i].data();
      frame.owner = incoming.owner;
    }
    message.frames_.push_back(std::move(frame));
  }
  ++received_messages_;
  received_bytes_ += arrived.bytes;
  Calls calls;
  bool dropped = false;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t ahead = received_bytes_ - arrived.bytes - told_bytes_;
    if (received_messages_ - told_messages_ > options_.window_messages ||
        !fits(ahead, arrived.bytes, options_.window_bytes)) {
      throw ProtocolError(agreement_.peer + " sent more messages, or more bytes, ahead than this end allows");
    }
    ++stats_.received;
    dropped = closing_;
    if (dropped) {
      ++taken_messages_;
      taken_bytes_ += arrived.bytes;
    } else {
      inbox_.push_back(std::move(arrived));
      if (notify_) calls.notify.push_back(std::exchange(notify_, nullptr));
    }
  }
  calls.run();
}

/// Returns false if a region of the message isn't known yet. The next call begins with it.
bool Link::regions_known(Waiting& message) {
  const std::vector<wire::FrameEntry>& frames = message.body.frames;
  for (; message.known < frames.size(); ++message.known) {
    const std::uint64_t address = frames[message.known].address;
    if (address == 0) continue;
    if (!maps(agreement_))
      throw ProtocolError(agreement_.peer + " sent a frame by address, which this end doesn't take");
    if (!connection_->knows_region(address)) return false;
  }
  return true;
}

bool Link::send_return() {
  wire::Return message;
  std::vector<FramesOf*> told_of;
  {
    const std::lock_guard lock(mutex_);
    if (!return_due()) return false;
    message.taken_messages = taken_messages_;
    message.taken_bytes = taken_bytes_;
    for (FramesOf* frames = first_released_; frames != nullptr && told_of.size() < wire::kMaxReturns;
         frames = frames->next_released) {
      told_of.push_back(frames);
      message.released.push_back({frames->region, frames->released});
    }
  }
  if (!connection_->send(wire::encode(message), {})) return false;
  const std::lock_guard lock(mutex_);
  told_messages_ = message.taken_messages;
  told_bytes_ = message.taken_bytes;
  for (std::size_t i = 0; i < told_of.size(); ++i) told_of[i]->released -= message.released[i].frames;
  for (FramesOf** next = &first_released_; *next != nullptr;) {
    FramesOf& frames = **next;
    if (frames.released > 0) {
      next = &frames.next_released;
      continue;
    }
    *next = std::exchange(frames.next_released, nullptr);
    if (frames.held == 0) frames_of_.erase(frames.region);
  }
  return true;
}

bool Link::send_messages(Calls* calls) {
  bool progress = false;
  for (int n = 0; n < kMessagesPerTurn; ++n) {
    std::shared_ptr<Outgoing> message;
    {
      const std::lock_guard lock(mutex_);
      if (outbox_.empty() || !outbox_.front()->ready) return progress;
      message = outbox_.front();
      if (message->in_place) in_place_.reserve(in_place_.size() + 1);
    }
    const Sent sent = send_message(message);
    placing_ = sent == Sent::kNoRoom && message->placed > 0 ? message : nullptr;
    if (sent == Sent::kNoRoom) return progress;
    progress = true;
    if (sent == Sent::kTooLarge) take_back_places(*message);
    const std::lock_guard lock(mutex_);
    if (!outbox_.empty() && outbox_.front() == message) outbox_.pop_front();  // unless abort() has dropped it
    if (sent == Sent::kTooLarge) {
      if (message->done)
        calls->over.emplace_back(
            std::exchange(message->done, nullptr),
            std::make_exception_ptr(InvalidArgumentError(
                "a message that can't go by address is over the peer's limit for messages by value")));
    } else if (message->in_place) {
      in_place_.push_back(std::move(message));
    } else if (message->done) {
      calls->over.emplace_back(std::exchange(message->done, nullptr), nullptr);
    }
  }
  return progress;
}

/// The message that had no room was dropped by abort(): the peer will release none of its frames.
void Link::drop_places() {
  {
    const std::lock_guard lock(mutex_);
    if (!placing_ || (!outbox_.empty() && outbox_.front() == placing_)) return;
  }
  take_back_places(*placing_);
  placing_.reset();
}

/// For a message that isn't sent.
void Link::take_back_places(const Outgoing& message) {
  for (std::size_t i = 0; i < message.placed; ++i) {
    const wire::FrameEntry& entry = message.entries[i];
    if (entry.address != 0) regions_.released({entry.region, 1});
  }
}

/// Whether a message is over the peer's limit by value. Announces nothing: regions of messages that aren't sent would
/// count for those that the peer may have.
bool Link::too_large(const Outgoing& message) const {
  const auto sum = [&](auto&& counts) {
    std::uint64_t bytes = 0;
    for (const Outgoing::Item& item : message.items) bytes += counts(item) ? item.size : 0;
    return bytes;
  };
  if (sum([](const auto&) { return true; }) <= open_.max_body) return false;
  RegionsWithPeer::Plan plan(regions_, open_.max_regions);
  return sum([&](const auto& item) { return !item.shared || plan.by_value(*item.shared); }) > open_.max_body;
}

Link::Sent Link::send_message(const std::shared_ptr<Outgoing>& message) {
  std::vector<Outgoing::Item>& items = message->items;
  if (sent_messages_ - peer_took_messages_ >= open_.window_messages) return Sent::kNoRoom;
  if (message->placed == 0 && too_large(*message)) return Sent::kTooLarge;
  message->entries.resize(items.size());
  for (; message->placed < items.size(); ++message->placed) {
    Outgoing::Item& item = items[message->placed];
    wire::FrameEntry& entry = message->entries[message->placed];
    entry.size = item.size;
    if (!item.shared) continue;
    RegionsWithPeer::Place place;
    switch (regions_.place(*connection_, *item.shared, open_.max_regions, &place)) {
      case RegionsWithPeer::Outcome::kNoRoom: return Sent::kNoRoom;
      case RegionsWithPeer::Outcome::kPlaced:
        entry.address = place.address;
        entry.region = place.region;
        break;
      case RegionsWithPeer::Outcome::kByValue:
        item.value = {item.shared->region->data() + item.shared->offset, item.size};
        break;
    }
  }
  if (message->start.empty()) message->start = wire::encode_start(message->entries, message->meta);

  static constexpr std::array<std::byte, wire::kAlignment> kZeros{};
  std::vector<ByteSpan> parts = {message->start};
  std::uint64_t size = message->start.size();
  std::uint64_t by_value = 0;
  for (const Outgoing::Item& item : items) {
    if (item.value.empty()) continue;
    const std::uint64_t padding = align_up(size, wire::kAlignment) - size;
    if (padding > 0) parts.push_back(ByteSpan(kZeros).first(padding));
    parts.push_back(item.value);
    size += padding + item.size;
    by_value += item.size;
  }
  if (size > open_.max_body) return Sent::kTooLarge;
  const std::uint64_t cost = wire::cost_of(size, items.size());
  const std::uint64_t ahead = sent_bytes_ - peer_took_bytes_;
  if (!fits(ahead, cost, open_.window_bytes)) return Sent::kNoRoom;
  const auto keeper = std::make_shared<BodyKeeper>(message, weak_from_this());
  if (!connection_->send_body(wire::kMessageTag, parts, keeper)) {
    keeper->link.reset();  // nothing was sent
    return Sent::kNoRoom;
  }
  ++sent_messages_;
  sent_bytes_ += cost;
  const std::lock_guard lock(mutex_);
  ++stats_.sent;
  stats_.bytes_by_value += by_value;
  for (const wire::FrameEntry& entry : message->entries) {
    if (entry.address == 0) continue;
    ++stats_.frames_by_address;
    stats_.bytes_by_address += entry.size;
  }
  return Sent::kSent;
}

/// Ends the sends of messages that were sent from the user's memory.
void Link::collect_sent(Calls* calls) {
  std::vector<std::shared_ptr<Outgoing>> dropped_without_the_lock;
  const std::lock_guard lock(mutex_);
  // Not that of std::ranges: clang 14 can't read what it returns in this library's version.
  const auto sent = std::stable_partition(in_place_.begin(), in_place_.end(), [](const auto& message) {
    return !message->sent.load(std::memory_order_acquire);
  });
  dropped_without_the_lock.assign(sent, in_place_.end());
  in_place_.erase(sent, in_place_.end());
  for (const auto& message : dropped_without_the_lock) {
    if (message->done) calls->over.emplace_back(std::exchange(message->done, nullptr), nullptr);
  }
}

/// Sends END, or answers it, and ends the link when nothing is left to do.
bool Link::send_end(Calls* calls) {
  bool progress = false;
  bool aborted = false;
  {
    const std::lock_guard lock(mutex_);
    if ((!closing_ && !peer_ended_) || !outbox_.empty()) return false;
    aborted = aborted_;
  }
  if (!end_sent_) {
    if (!connection_->send(wire::encode(aborted ? wire::End::kAborted : wire::End::kClosed), {})) return false;
    progress = end_sent_ = true;
  }
  if (!connection_->flush()) return progress;
  const std::lock_guard lock(mutex_);
  if (closing_) end_close(calls);
  // The peer answers END when it has received everything. To close a network connection before that could lose what is
  // on its way.
  if (peer_ended_ && regions_.size() == 0 && frames_held_ == 0 && first_released_ == nullptr && in_place_.empty())
    over_ = true;
  return progress;
}

/// Ends the link. `peer_gone`: the other end of the connection is closed: nothing can be sent any more.
void Link::end(std::exception_ptr reason, bool peer_gone) noexcept {
  Calls calls;
  std::vector<std::shared_ptr<Outgoing>> dropped_without_the_lock;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
    if (!failure_) failure_ = std::move(reason);
    stats_.regions_with_peer = 0;
    drop_outbox(failure_, &calls);
    for (const auto& message : in_place_) {
      if (message->done) calls.over.emplace_back(std::exchange(message->done, nullptr), failure_);
    }
    dropped_without_the_lock.swap(in_place_);
    if (notify_) calls.notify.push_back(std::exchange(notify_, nullptr));
  }
  regions_.abandon();
  if (!peer_gone) {
    try {
      if (!end_sent_ && open_sent_) connection_->send(wire::encode(wire::End::kAborted), {});
      connection_->flush();
    } catch (const std::exception&) {
      // The peer finds out when the connection is closed, with the last frame that is held here.
    }
  }
  calls.run();
}

}  // namespace crossdock::peers
