#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/amounts.h"
#include "core/event_fd.h"
#include "core/milliseconds.h"
#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "transport/memory.h"

namespace crossdock::transport {
namespace {

/// A message in a queue: a private copy, 64-aligned, as it would be after crossing a ring.
struct Message {
  bool tagged = false;
  std::uint64_t tag = 0;
  std::size_t size = 0;
  std::shared_ptr<std::byte> bytes{};
  bool body = false;  // sent by value: the receiver gets the owner of the bytes
};

/// An announced region: its descriptor. The receiver maps it when it first asks for it.
struct Announcement {
  UniqueFd fd;
  device::RegionKind kind;
  std::uint64_t size;
  device::FileStamp stamp;
  std::shared_ptr<const device::Region> memory;
  std::shared_ptr<const PeerRegion> known;
};

// Unlike those of shm, so that nobody comes to rely on shm's.
constexpr int kBaseShift = 44;
constexpr std::uint64_t base_of(std::uint16_t number) noexcept { return (std::uint64_t{number} + 1) << kBaseShift; }
/// Returns the number of the region that the address is in; nothing if there can be none.
std::optional<std::uint16_t> number_at(std::uint64_t address) noexcept {
  const std::uint64_t number = (address >> kBaseShift) - 1;
  if (number > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  return static_cast<std::uint16_t>(number);
}

class MemoryConnection;

/// What a Reading and its connection share.
struct ReadState {
  MemoryConnection* connection;  // null once the reads have ended
  std::exception_ptr failure;
};

class MemoryReading final : public Reading {
 public:
  explicit MemoryReading(std::shared_ptr<const ReadState> state) noexcept : state_(std::move(state)) {}
  bool done() override;

 private:
  const std::shared_ptr<const ReadState> state_;
};

/// A group of reads under way.
struct PendingRead {
  std::vector<ReadPart> parts;
  std::shared_ptr<const void> keep;
  std::shared_ptr<ReadState> state;
  int calls = 0;  // until it ends
  bool fails = false;
};

struct End {
  EventFd doorbell{"the doorbell of an in-process connection"};
  bool asleep = false;
  bool gone = false;
  // Sent by this end:
  std::deque<Message> queue;
  std::unordered_map<std::uint16_t, Announcement> regions;
  std::size_t room_at = 0;  // set if it found no room: ring it once fewer messages than this are queued; 0: none

  void ring_if_asleep() noexcept {
    if (std::exchange(asleep, false)) doorbell.set();
  }
};

/// State that the two ends share. The ends are guarded by the mutex, except for the descriptors of their doorbells.
struct MemoryLink {
  std::mutex mutex;
  std::condition_variable announced;
  std::array<End, 2> ends;
};

class MemoryConnection final : public Connection {
 public:
  MemoryConnection(const Agreement& agreement, const MemoryOptions& options, std::shared_ptr<MemoryLink> link,
                   std::size_t end)
      : agreement_(agreed(agreement, options)),
        options_(options),
        link_(std::move(link)),
        self_(link_->ends[end]),
        other_(link_->ends[1 - end]) {}
  ~MemoryConnection() override {
    for (PendingRead& read : reads_) end(&read, "memory: this end was destroyed in the middle of a read");
    {
      const std::lock_guard lock(link_->mutex);
      self_.gone = true;
      other_.queue.clear();  // no receiver is left for these
      other_.regions.clear();
      other_.doorbell.set();
    }
    link_->announced.notify_all();
  }
  MemoryConnection(const MemoryConnection&) = delete;
  MemoryConnection& operator=(const MemoryConnection&) = delete;

  const Agreement& agreement() const noexcept override { return agreement_; }

  bool send(ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return push(false, 0, std::array{head, tail}, false);
  }
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return push(true, tag, std::array{head, tail}, false);
  }
  std::uint64_t max_message() const noexcept override { return options_.max_message; }
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void>) override {
    std::uint64_t size = 0;
    for (const ByteSpan part : parts) size += part.size();
    if (size > options_.max_body) {
      throw InvalidArgumentError("memory: a body of " + std::to_string(size) +
                                 " bytes is over this connection's limit of " + std::to_string(options_.max_body) +
                                 " (MemoryOptions::max_body)");
    }
    return push(true, tag, parts, true);
  }
  std::uint64_t max_body() const noexcept override { return options_.max_body; }
  std::size_t in_flight() override {
    const std::lock_guard lock(link_->mutex);
    return self_.queue.size();
  }
  bool below_window(std::size_t window) override {
    const std::lock_guard lock(link_->mutex);
    const bool below = self_.queue.size() < window;
    self_.room_at = below ? 0 : window;
    return below;
  }

  std::optional<std::uint64_t> announce(std::uint16_t number,
                                        const std::shared_ptr<const device::Region>& region) override {
    if ((agreement_.ways & (Way::kMap | Way::kRead)).empty()) {
      throw std::logic_error("memory: this connection was made to share no memory");
    }
    UniqueFd fd(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!fd) throw_errno(errno, "memory: duplicating the descriptor of region " + std::to_string(number));
    Announcement announcement{std::move(fd), region->kind(), region->size(), region->stamp(), nullptr, nullptr};
    {
      const std::lock_guard lock(link_->mutex);
      throw_if_other_gone();
      if (!self_.regions.try_emplace(number, std::move(announcement)).second) {
        throw std::logic_error("memory: region number " + std::to_string(number) +
                               " was already announced; retire it before it is used again");
      }
      other_.doorbell.set();  // asleep or not: the descriptor becomes readable when a region was sent
    }
    link_->announced.notify_all();
    return base_of(number);
  }
  bool retire(std::uint16_t number) override {
    Announcement dropped_without_the_lock{};
    const std::lock_guard lock(link_->mutex);
    throw_if_other_gone();
    const auto found = self_.regions.find(number);
    if (found == self_.regions.end()) {
      throw std::logic_error("memory: region number " + std::to_string(number) +
                             " is retired, but was never announced");
    }
    dropped_without_the_lock = std::move(found->second);
    self_.regions.erase(found);
    return true;
  }

  std::optional<Incoming> receive() override {
    end_reads();
    std::optional<Message> message = pop();
    if (!message) return std::nullopt;
    if (message->body) {
      if (body_memory_) {
        std::shared_ptr<std::byte> moved = body_memory_->allocate(message->size);
        if (message->size > 0) std::memcpy(moved.get(), message->bytes.get(), message->size);
        message->bytes = std::move(moved);
      }
      return Incoming{true, message->tag, {message->bytes.get(), message->size}, message->bytes};
    }
    current_ = std::move(*message);
    return Incoming{current_.tagged, current_.tag, {current_.bytes.get(), current_.size}};
  }
  void receive_into(std::shared_ptr<BodyMemory> memory) override { body_memory_ = std::move(memory); }

  std::shared_ptr<const PeerRegion> peer_region(std::uint64_t address, int timeout_ms,
                                                const InterruptHook& interrupted) override {
    using Clock = std::chrono::steady_clock;
    const std::optional<std::uint16_t> asked = number_at(address);
    if (!asked) throw ProtocolError("memory: the address " + std::to_string(address) + " is in no region");
    const std::uint16_t number = *asked;
    const auto deadline = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
    std::unique_lock lock(link_->mutex);
    const auto there = [&] { return other_.regions.contains(number); };
    while (!there() && !other_.gone) {
      if (interrupted) {
        lock.unlock();  // the hook may call anything
        if (interrupted()) {
          throw InterruptedError("memory: waiting for region " + std::to_string(number) + " was interrupted");
        }
        lock.lock();
      }
      const auto until = interrupted ? std::min(deadline, Clock::now() + kHookInterval) : deadline;
      link_->announced.wait_until(lock, until, [&] { return there() || other_.gone; });
      if (Clock::now() >= deadline) break;
    }
    if (!there()) {
      throw ProtocolError("memory: a message names region " + std::to_string(number) + ", which the peer " +
                          (other_.gone
                               ? "did not announce before it disconnected"
                               : "did not announce within " + in_seconds(std::chrono::milliseconds(timeout_ms))));
    }
    return known(number, &other_.regions.at(number));
  }
  bool knows_region(std::uint64_t address) override {
    const std::optional<std::uint16_t> number = number_at(address);
    const std::lock_guard lock(link_->mutex);
    return !number || other_.regions.contains(*number) || other_.gone;
  }
  std::unique_ptr<Reading> read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep) override {
    if (!agreement_.ways.has(Way::kRead)) throw std::logic_error("memory: this connection was made without reads");
    {
      const std::lock_guard lock(link_->mutex);
      throw_if_other_gone();
    }
    if (reads_.size() >= options_.max_reads) return nullptr;
    const int calls = options_.reads ? options_.reads(n_reads_) : 0;
    ++n_reads_;
    auto state = std::make_shared<ReadState>(ReadState{this, nullptr});
    reads_.push_back({{parts.begin(), parts.end()}, std::move(keep), state, calls < 0 ? ~calls : calls, calls < 0});
    return std::make_unique<MemoryReading>(std::move(state));
  }

  bool readable() const override {
    const std::lock_guard lock(link_->mutex);
    return !reads_.empty() || has_news();
  }
  bool prepare_sleep() override {
    const std::lock_guard lock(link_->mutex);
    self_.asleep = reads_.empty() && !has_news();  // calls of receive() are what ends reads
    return self_.asleep;
  }
  void wake() override {
    const std::lock_guard lock(link_->mutex);
    self_.asleep = false;
    if (other_.gone) return;  // stays readable, like a socket whose peer has disconnected
    self_.doorbell.clear();
  }
  int descriptor() const noexcept override { return self_.doorbell.get(); }

  /// Makes progress with the reads: ends those whose turn it is.
  void end_reads() {
    for (auto read = reads_.begin(); read != reads_.end();) {
      bool gone = false;
      {
        const std::lock_guard lock(link_->mutex);
        gone = other_.gone;
      }
      if (!gone && read->calls-- > 0) {
        ++read;
        continue;
      }
      const char* failure = nullptr;
      if (gone) failure = "memory: the other end was destroyed in the middle of a read";
      if (read->fails) failure = "memory: a read failed, as MemoryOptions::reads wants it";
      try {
        for (const ReadPart& part : read->parts) {
          if (failure == nullptr) copy(part);
        }
      } catch (const ProtocolError&) {
        read->state->failure = std::current_exception();
      }
      end(&*read, failure);
      read = reads_.erase(read);
    }
  }

 private:
  static Agreement agreed(Agreement agreement, const MemoryOptions& options) {
    agreement.ways = options.ways;
    agreement.max_body = options.max_body;
    agreement.carrier = "memory";
    agreement.authenticated = true;
    agreement.privileged = true;
    return agreement;
  }
  void check_size(ByteSpan head, ByteSpan tail) const {
    if (head.size() > options_.max_message || tail.size() > options_.max_message - head.size()) {
      throw InvalidArgumentError("memory: a message of " + std::to_string(head.size() + tail.size()) +
                                 " bytes is over this connection's limit of " + std::to_string(options_.max_message) +
                                 " (MemoryOptions::max_message)");
    }
  }

  bool push(bool tagged, std::uint64_t tag, std::span<const ByteSpan> parts, bool body) {
    {
      const std::lock_guard lock(link_->mutex);
      throw_if_other_gone();
      if (self_.queue.size() >= options_.queue_messages) {
        self_.room_at = options_.queue_messages;
        return false;
      }
      self_.room_at = 0;
    }
    // Copies without the lock. The room stays free meanwhile, because only this half pushes.
    Message message{.tagged = tagged, .tag = tag, .body = body};
    for (const ByteSpan part : parts) message.size += part.size();
    constexpr std::align_val_t kAlignment{64};
    message.bytes = {static_cast<std::byte*>(::operator new(message.size, kAlignment)),
                     [](std::byte* bytes) { ::operator delete(bytes, kAlignment); }};
    std::byte* to = message.bytes.get();
    for (const ByteSpan part : parts) {
      if (!part.empty()) std::memcpy(to, part.data(), part.size());
      to += part.size();
    }

    const std::lock_guard lock(link_->mutex);
    throw_if_other_gone();
    self_.queue.push_back(std::move(message));
    other_.ring_if_asleep();
    return true;
  }

  std::optional<Message> pop() {
    const std::lock_guard lock(link_->mutex);
    if (other_.queue.empty()) {
      if (other_.gone) throw ConnectionError("memory: the other end of the in-process connection was destroyed");
      return std::nullopt;
    }
    Message message = std::move(other_.queue.front());
    other_.queue.pop_front();
    if (other_.queue.size() < other_.room_at) other_.ring_if_asleep();
    return message;
  }

  static void end(PendingRead* read, const char* failure) {
    read->state->connection = nullptr;
    if (failure != nullptr) read->state->failure = std::make_exception_ptr(ConnectionError(failure));
  }
  void copy(const ReadPart& part) {
    std::shared_ptr<const device::Region> memory;
    {
      const std::lock_guard lock(link_->mutex);
      const std::optional<std::uint16_t> number = number_at(part.address);
      const auto found = number ? other_.regions.find(*number) : other_.regions.end();
      if (found == other_.regions.end() || !known(*number, &found->second)->contains(part.address, part.length)) {
        throw ProtocolError("memory: a read of " + std::to_string(part.length) + " bytes at address " +
                            std::to_string(part.address) + " is outside every announced region");
      }
      memory = found->second.memory;
    }
    std::memcpy(part.to, memory->data() + (part.address & (base_of(0) - 1)), part.length);
  }

  // With the mutex held:
  std::shared_ptr<const PeerRegion> known(std::uint16_t number, Announcement* announcement) const {
    if (!announcement->known) {
      announcement->memory = device::Region::adopt(std::move(announcement->fd), announcement->kind, announcement->size,
                                                   announcement->stamp, "memory: region " + std::to_string(number));
      announcement->known = std::make_shared<const PeerRegion>(
          base_of(number), announcement->size, agreement_.ways.has(Way::kMap) ? announcement->memory : nullptr, number);
    }
    return announcement->known;
  }
  void throw_if_other_gone() const {
    if (other_.gone) {
      throw ConnectionError(
          "memory: the other end of the in-process connection was destroyed; nothing more can be sent");
    }
  }
  bool has_news() const { return !other_.queue.empty() || other_.gone || self_.queue.size() < self_.room_at; }

  const Agreement agreement_;
  const MemoryOptions options_;
  const std::shared_ptr<MemoryLink> link_;
  End& self_;
  End& other_;
  std::shared_ptr<BodyMemory> body_memory_;
  Message current_;                 // the message that the last receive() returned
  std::vector<PendingRead> reads_;  // in the order in which they were begun
  std::uint64_t n_reads_ = 0;
};

bool MemoryReading::done() {
  if (state_->connection != nullptr) state_->connection->end_reads();
  if (state_->failure) std::rethrow_exception(state_->failure);
  return state_->connection == nullptr;
}

}  // namespace

std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(const Agreement& agreement,
                                                                                const MemoryOptions& options) {
  if (options.queue_messages == 0) {
    throw InvalidArgumentError("memory: MemoryOptions::queue_messages is 0: no message could be sent");
  }
  const auto link = std::make_shared<MemoryLink>();
  return {std::make_unique<MemoryConnection>(agreement, options, link, 0),
          std::make_unique<MemoryConnection>(agreement, options, link, 1)};
}

}  // namespace crossdock::transport
