#include "link.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport {

namespace {

constexpr std::chrono::milliseconds kHookInterval{100};

}  // namespace

MemoryLink::MemoryLink(std::size_t capacity) : capacity_(capacity) {
  for (End& end : ends_) {
    end.doorbell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!end.doorbell) throw_errno(errno, "making the doorbell of an in-process connection");
  }
}

void MemoryLink::throw_if_other_gone(int end) const {
  if (ends_[1 - end].gone) {
    throw ConnectionError("memory: the other end of the in-process connection was destroyed; nothing more can be sent");
  }
}

bool MemoryLink::push(int end, bool tagged, std::uint64_t tag, std::span<const ByteSpan> parts, bool body) {
  End& self = ends_[end];
  {
    const std::lock_guard lock(mutex_);
    throw_if_other_gone(end);
    if (self.queue.size() >= capacity_) {
      self.room_at = capacity_;
      return false;
    }
    self.room_at = 0;
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

  const std::lock_guard lock(mutex_);
  throw_if_other_gone(end);
  self.queue.push_back(std::move(message));
  ring_if_asleep(other(end));
  return true;
}

std::size_t MemoryLink::in_flight(int end) const {
  const std::lock_guard lock(mutex_);
  return ends_[end].queue.size();
}

bool MemoryLink::below_window(int end, std::size_t window) {
  const std::lock_guard lock(mutex_);
  End& self = ends_[end];
  const bool below = self.queue.size() < window;
  self.room_at = below ? 0 : window;
  return below;
}

void MemoryLink::announce(int end, std::uint16_t number, const device::Region& region) {
  UniqueFd fd(fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!fd) throw_errno(errno, "memory: duplicating the descriptor of region " + std::to_string(number));
  Announcement announcement{std::move(fd), region.kind(), region.size(), region.stamp(), nullptr};
  {
    const std::lock_guard lock(mutex_);
    throw_if_other_gone(end);
    if (!ends_[end].regions.try_emplace(number, std::move(announcement)).second) {
      throw std::logic_error("memory: region number " + std::to_string(number) +
                             " was already announced; retire it before it is used again");
    }
    ring(other(end));  // asleep or not: the descriptor becomes readable when a region was sent
  }
  announced_.notify_all();
}

void MemoryLink::retire(int end, std::uint16_t number) {
  std::shared_ptr<const device::Region> unmapped_without_the_lock;
  const std::lock_guard lock(mutex_);
  throw_if_other_gone(end);
  auto& regions = ends_[end].regions;
  const auto found = regions.find(number);
  if (found == regions.end()) {
    throw std::logic_error("memory: region number " + std::to_string(number) + " is retired, but was never announced");
  }
  unmapped_without_the_lock = std::move(found->second.mapped);
  regions.erase(found);
}

std::optional<MemoryLink::Message> MemoryLink::pop(int end) {
  const std::lock_guard lock(mutex_);
  End& sender = other(end);
  if (sender.queue.empty()) {
    if (sender.gone) throw ConnectionError("memory: the other end of the in-process connection was destroyed");
    return std::nullopt;
  }
  Message message = std::move(sender.queue.front());
  sender.queue.pop_front();
  if (sender.queue.size() < sender.room_at) ring_if_asleep(sender);
  return message;
}

std::shared_ptr<const device::Region> MemoryLink::region(int end, std::uint16_t number, int timeout_ms,
                                                         const InterruptHook& interrupted) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  std::unique_lock lock(mutex_);
  End& sender = other(end);
  const auto there = [&] { return sender.regions.contains(number); };
  while (!there() && !sender.gone) {
    if (interrupted) {
      lock.unlock();  // the hook may call anything
      if (interrupted()) {
        throw InterruptedError("memory: waiting for region " + std::to_string(number) + " was interrupted");
      }
      lock.lock();
    }
    const auto until = interrupted ? std::min(deadline, Clock::now() + kHookInterval) : deadline;
    announced_.wait_until(lock, until, [&] { return there() || sender.gone; });
    if (Clock::now() >= deadline) break;
  }
  if (!there()) {
    throw ProtocolError("memory: a message names region " + std::to_string(number) + ", which the peer " +
                        (sender.gone ? "did not announce before it disconnected"
                                     : "did not announce within " + std::to_string(timeout_ms) + " ms"));
  }
  Announcement& announcement = sender.regions.at(number);
  if (!announcement.mapped) {
    announcement.mapped = device::Region::adopt(std::move(announcement.fd), announcement.kind, announcement.size,
                                                announcement.stamp, "memory: region " + std::to_string(number));
  }
  return announcement.mapped;
}

bool MemoryLink::knows_region(int end, std::uint16_t number) const {
  const std::lock_guard lock(mutex_);
  const End& sender = ends_[1 - end];
  return sender.regions.contains(number) || sender.gone;
}

bool MemoryLink::has_news(int end) const {
  const End& self = ends_[end];
  const End& peer = ends_[1 - end];
  return !peer.queue.empty() || peer.gone || self.queue.size() < self.room_at;
}

bool MemoryLink::readable(int end) const {
  const std::lock_guard lock(mutex_);
  return has_news(end);
}

bool MemoryLink::prepare_sleep(int end) {
  const std::lock_guard lock(mutex_);
  ends_[end].asleep = !has_news(end);
  return ends_[end].asleep;
}

void MemoryLink::wake(int end) {
  const std::lock_guard lock(mutex_);
  ends_[end].asleep = false;
  if (other(end).gone) return;  // stays readable, like a socket whose peer has disconnected
  std::uint64_t rings = 0;
  // EAGAIN only means that the other end didn't ring.
  [[maybe_unused]] const ssize_t got = read(ends_[end].doorbell.get(), &rings, sizeof rings);
}

void MemoryLink::close(int end) {
  {
    const std::lock_guard lock(mutex_);
    ends_[end].gone = true;
    other(end).queue.clear();  // no receiver is left for these
    other(end).regions.clear();
    ring(other(end));
  }
  announced_.notify_all();
}

void MemoryLink::ring_if_asleep(End& end) noexcept {
  if (std::exchange(end.asleep, false)) ring(end);
}

void MemoryLink::ring(End& end) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full: then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = write(end.doorbell.get(), &one, sizeof one);
}

}  // namespace crossdock::transport
