#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "transport/transport.h"

namespace crossdock::transport::net {

/// The regions that the peer has announced for reads, by number and by address. Use it from one thread at a time.
class AnnouncedRegions {
 public:
  /// `where` names the peer in errors. At most `max` regions may be known at once.
  AnnouncedRegions(std::string where, std::size_t max) : where_(std::move(where)), max_(max) {}

  /// Adds a region of `size` bytes that begins at the peer's address `base`. Throws ProtocolError if the number is in
  /// use, the region is empty, ends behind the last address or overlaps another, or if there are too many.
  void add(std::uint16_t number, std::uint64_t base, std::uint64_t size);
  /// Removes a region. Throws ProtocolError if there is none.
  void remove(std::uint16_t number);
  /// Returns the region that the address is in, or behind which it is. Throws ProtocolError if there is none before it.
  const std::shared_ptr<const PeerRegion>& at(std::uint64_t address) const;
  /// Returns the region that all of these bytes are in; null if there is none. Valid until the next remove().
  const PeerRegion* find(std::uint64_t address, std::uint64_t length) const noexcept;

 private:
  using Regions = std::map<std::uint64_t, std::shared_ptr<const PeerRegion>>;
  const std::shared_ptr<const PeerRegion>* before(std::uint64_t address) const noexcept;

  const std::string where_;
  const std::size_t max_;
  Regions by_base_;
  std::unordered_map<std::uint16_t, std::uint64_t> bases_;  // by number
};

}  // namespace crossdock::transport::net
