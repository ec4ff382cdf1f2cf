#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "core/bytes.h"
#include "core/unique_fd.h"
#include "device/region.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// State that the two ends of an in-process connection share: for each direction a bounded queue of messages and the
/// announced regions, and for each end a doorbell. Thread-safe. The ends are numbered 0 and 1.
class MemoryLink {
 public:
  /// A message in the queue: a private copy, 64-aligned, as it would be after crossing a ring.
  struct Message {
    bool tagged = false;
    std::uint64_t tag = 0;
    std::size_t size = 0;
    std::shared_ptr<std::byte> bytes{};
    bool body = false;  ///< Sent by value: the receiver gets the owner of the bytes.
  };

  /// Throws ResourceError if there is no descriptor left for the doorbells.
  explicit MemoryLink(std::size_t capacity);

  // The sending half of `end`. These functions throw ConnectionError if the other end was destroyed.
  bool push(int end, bool tagged, std::uint64_t tag, std::span<const ByteSpan> parts, bool body = false);
  std::size_t in_flight(int end) const;
  bool below_window(int end, std::size_t window);
  void announce(int end, std::uint16_t number, const device::Region& region);
  void retire(int end, std::uint16_t number);

  // The receiving half of `end`.
  std::optional<Message> pop(int end);
  std::shared_ptr<const device::Region> region(int end, std::uint16_t number, int timeout_ms,
                                               const InterruptHook& interrupted);
  bool readable(int end) const;
  bool prepare_sleep(int end);
  void wake(int end);
  int descriptor(int end) const noexcept { return ends_[end].doorbell.get(); }

  bool knows_region(int end, std::uint16_t number) const;

  /// Called when the end is destroyed. The other end can still receive its messages.
  void close(int end);

 private:
  /// An announced region: its descriptor. The receiver maps it when it first asks for it.
  struct Announcement {
    UniqueFd fd;
    device::RegionKind kind;
    std::uint64_t size;
    device::FileStamp stamp;
    std::shared_ptr<const device::Region> mapped;
  };
  struct End {
    UniqueFd doorbell;  // an eventfd
    bool asleep = false;
    bool gone = false;
    // Sent by this end:
    std::deque<Message> queue;
    std::unordered_map<std::uint16_t, Announcement> regions;
    std::size_t room_at = 0;  // set if it found no room: ring it once fewer messages than this are queued; 0: none
  };

  End& other(int end) noexcept { return ends_[1 - end]; }
  void throw_if_other_gone(int end) const;
  bool has_news(int end) const;
  static void ring(End& end) noexcept;
  static void ring_if_asleep(End& end) noexcept;

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable announced_;
  std::array<End, 2> ends_;
};

}  // namespace crossdock::transport
