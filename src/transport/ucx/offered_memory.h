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
  /// Adds a region, and returns the address of its first byte, under which the peer knows it. Throws std::logic_error
  /// if the number is in use, ResourceError if a region can't be mapped.
  std::uint64_t add(std::uint16_t number, const std::shared_ptr<const device::Region>& region);
  /// Throws std::logic_error if there is none with this number.
  void check(std::uint16_t number) const;
  void remove(std::uint16_t number);
  bool empty() const;

  /// Answers the peer's request, a message of kRead: sends the bytes that it asks for, straight from the regions, which
  /// live until they were sent. Throws ProtocolError if the request is malformed or asks for
  /// bytes outside of the regions, or if too many answers wait; and what sends throw.
  void answer(Endpoint& endpoint, ByteSpan request) const;

 private:
  struct Answer;

  const std::shared_ptr<const device::Region>* find(const ReadRequest::Part& part) const noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint16_t, std::shared_ptr<const device::Region>> regions_;
  const std::shared_ptr<std::atomic<std::size_t>> waiting_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace crossdock::transport::ucx
