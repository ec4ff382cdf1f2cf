#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "crossdock/core/bytes.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/device/region.h"

namespace crossdock::transport {

/// One direction of an in-process connection: a bounded queue of messages, the regions announced along it, and the
/// receiver's doorbell. One sender and one receiver, each on a thread of its own.
class MemoryChannel {
 public:
  /// A message on its way: its own copy, as it would be after crossing a ring. operator new aligns it to 8 and more.
  struct Message {
    bool tagged = false;
    std::uint64_t tag = 0;
    std::size_t size = 0;
    std::unique_ptr<std::byte[]> bytes;
  };

  /// Throws ResourceError if there is no descriptor left for the doorbell.
  explicit MemoryChannel(std::size_t capacity);

  // --- the sender's side ---
  /// False if the queue is full. Throws ConnectionError if the receiver is gone.
  bool push(bool tagged, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  std::size_t in_flight();
  void announce(std::uint16_t number, const device::Region& region);
  void retire(std::uint16_t number);
  /// What was pushed stays for the receiver to take.
  void close_sender();

  // --- the receiver's side ---
  /// Throws ConnectionError if nothing is left and the sender is gone.
  std::optional<Message> pop();
  std::shared_ptr<const device::Region> region(std::uint16_t number, int timeout_ms);
  bool prepare_sleep();
  void wake();
  int descriptor() const noexcept { return doorbell_.get(); }
  void close_receiver();

 private:
  /// A region under way, as its descriptor; the receiver maps it when it first asks for it.
  struct Announcement {
    UniqueFd fd;
    device::RegionKind kind;
    std::uint64_t size;
    device::FileStamp stamp;
    std::shared_ptr<const device::Region> mapped;
  };

  void ring() noexcept;
  void throw_if_receiver_gone() const;

  const std::size_t capacity_;
  UniqueFd doorbell_;  // an eventfd

  std::mutex mutex_;
  std::condition_variable announced_;
  std::deque<Message> queue_;
  std::unordered_map<std::uint16_t, Announcement> regions_;
  bool asleep_ = false;
  bool sender_gone_ = false;
  bool receiver_gone_ = false;
};

}  // namespace crossdock::transport
