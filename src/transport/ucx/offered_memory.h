#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "control.h"
#include "core/bytes.h"
#include "device/region.h"
#include "endpoint.h"

namespace crossdock::transport::ucx {

/// The regions that one end lets its peer read, by number. The peer names a byte by the region's number and an offset
/// (device/region_address.h), and learns no address of this process. Thread-safe.
class OfferedMemory {
 public:
  /// Parts after which no more requests are answered in one turn.
  static constexpr std::size_t kPartsPerTurn = 256;
  /// Parts that are under way when no more requests are to be answered; the last one may go over it.
  static constexpr std::size_t kMostParts = 4 * kMaxPartsOfRead;

  struct Answered {
    std::size_t parts = 0;
    std::uint64_t bytes = 0;
  };

  /// Adds a region, and returns the address of its first byte, under which the peer knows it. Throws std::logic_error
  /// if the number is in use, ResourceError if a region can't be mapped.
  std::uint64_t add(std::uint16_t number, const std::shared_ptr<const device::Region>& region);
  /// Throws std::logic_error if there is none with this number.
  void check(std::uint16_t number) const;
  void remove(std::uint16_t number);
  bool empty() const;

  /// Whether another request may be answered now. If not, it is once the network has taken more of the answers.
  bool has_room() const noexcept { return under_way_->parts < kMostParts; }
  /// Answers the peer's request, a message of kRead: sends the bytes that it asks for, straight from the regions, which
  /// live until they were sent. Returns how much that is. Throws ProtocolError if the request is malformed or asks for
  /// bytes outside of the regions, or if too many answers wait; and what sends throw.
  Answered answer(Endpoint& endpoint, ByteSpan request) const;

 private:
  /// The answers that aren't sent, and their parts.
  struct UnderWay {
    std::atomic<std::size_t> answers{0};
    std::atomic<std::size_t> parts{0};
  };
  struct Answer;

  const std::shared_ptr<const device::Region>* find(const ReadRequest::Part& part) const noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint16_t, std::shared_ptr<const device::Region>> regions_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
};

}  // namespace crossdock::transport::ucx
