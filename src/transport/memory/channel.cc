#include "channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport {

MemoryChannel::MemoryChannel(std::size_t capacity) : capacity_(capacity) {
  doorbell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_) throw_errno(errno, "making the doorbell of an in-process connection");
}

void MemoryChannel::throw_if_receiver_gone() const {
  if (receiver_gone_) {
    throw ConnectionError("memory: the other end of the in-process connection was destroyed; nothing more can be sent");
  }
}

bool MemoryChannel::push(bool tagged, std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  {
    const std::lock_guard lock(mutex_);
    throw_if_receiver_gone();
    if (queue_.size() >= capacity_) return false;
  }
  // Copied with no lock held. The room can't be taken meanwhile: only this side pushes.
  Message message{tagged, tag, head.size() + tail.size(), nullptr};
  message.bytes = std::make_unique_for_overwrite<std::byte[]>(message.size);
  if (!head.empty()) std::memcpy(message.bytes.get(), head.data(), head.size());
  if (!tail.empty()) std::memcpy(message.bytes.get() + head.size(), tail.data(), tail.size());

  bool wake_peer = false;
  {
    const std::lock_guard lock(mutex_);
    throw_if_receiver_gone();
    queue_.push_back(std::move(message));
    wake_peer = std::exchange(asleep_, false);
  }
  if (wake_peer) ring();
  return true;
}

std::size_t MemoryChannel::in_flight() {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void MemoryChannel::announce(std::uint16_t number, const device::Region& region) {
  UniqueFd fd(fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!fd) throw_errno(errno, "memory: duplicating the descriptor of region " + std::to_string(number));
  Announcement announcement{std::move(fd), region.kind(), region.size(), region.stamp(), nullptr};
  {
    const std::lock_guard lock(mutex_);
    throw_if_receiver_gone();
    if (!regions_.emplace(number, std::move(announcement)).second) {
      throw std::logic_error("memory: region number " + std::to_string(number) +
                             " was announced already; retire it before it is used again");
    }
    asleep_ = false;
  }
  announced_.notify_all();
  ring();  // asleep or not: the descriptor turns readable when a region was sent
}

void MemoryChannel::retire(std::uint16_t number) {
  std::shared_ptr<const device::Region> unmapped_without_the_lock;
  const std::lock_guard lock(mutex_);
  throw_if_receiver_gone();
  const auto found = regions_.find(number);
  if (found == regions_.end()) {
    throw std::logic_error("memory: region number " + std::to_string(number) + " is retired, but was never announced");
  }
  unmapped_without_the_lock = std::move(found->second.mapped);
  regions_.erase(found);
}

void MemoryChannel::close_sender() {
  {
    const std::lock_guard lock(mutex_);
    sender_gone_ = true;
    asleep_ = false;
  }
  announced_.notify_all();
  ring();
}

std::optional<MemoryChannel::Message> MemoryChannel::pop() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) {
    if (sender_gone_) throw ConnectionError("memory: the other end of the in-process connection was destroyed");
    return std::nullopt;
  }
  Message message = std::move(queue_.front());
  queue_.pop_front();
  return message;
}

std::shared_ptr<const device::Region> MemoryChannel::region(std::uint16_t number, int timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return regions_.contains(number); };
  announced_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return there() || sender_gone_; });
  if (!there()) {
    throw ProtocolError("memory: a message names region " + std::to_string(number) + ", which the peer " +
                        (sender_gone_ ? "did not announce before it went away"
                                      : "did not announce within " + std::to_string(timeout_ms) + " ms"));
  }
  Announcement& announcement = regions_.at(number);
  if (!announcement.mapped) {
    announcement.mapped = device::Region::adopt(std::move(announcement.fd), announcement.kind, announcement.size,
                                                announcement.stamp, "memory: region " + std::to_string(number));
  }
  return announcement.mapped;
}

bool MemoryChannel::prepare_sleep() {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty() || sender_gone_) return false;
  asleep_ = true;
  return true;
}

void MemoryChannel::wake() {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  if (sender_gone_) return;  // stays readable, as a socket does whose peer hung up
  std::uint64_t rings = 0;
  // EAGAIN only says that nobody rang.
  [[maybe_unused]] const ssize_t got = read(doorbell_.get(), &rings, sizeof rings);
}

void MemoryChannel::close_receiver() {
  const std::lock_guard lock(mutex_);
  receiver_gone_ = true;
}

void MemoryChannel::ring() noexcept {
  const std::uint64_t one = 1;
  // The count can't overflow in practice, and if it would, the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = write(doorbell_.get(), &one, sizeof one);
}

}  // namespace crossdock::transport
