#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "transport/transport.h"

namespace crossdock::transport::shm {

/// The regions that the peer has announced, by number. Not shared between threads.
class PeerRegions {
 public:
  /// Adds the region that was announced under this number. Throws ProtocolError if the number is in use.
  void put(std::uint16_t number, std::shared_ptr<const PeerRegion> region);
  /// Drops the table's own references, so that each region is freed with its last other owner. Numbers stay in use.
  /// Call make_strong() before the next find().
  void make_weak() noexcept;
  /// After make_weak(), takes references again to the regions that still have an owner. find() finds those.
  void make_strong() noexcept;
  /// Returns whether the number was put and not removed.
  bool in_use(std::uint16_t number) const noexcept;
  /// Returns the region of this number; null if there is none.
  const std::shared_ptr<const PeerRegion>& find(std::uint16_t number) const noexcept;
  /// Removes the region, so that its number is free again. Returns false if it wasn't in use.
  bool remove(std::uint16_t number) noexcept;

 private:
  struct Place {
    std::shared_ptr<const PeerRegion> region;
    std::weak_ptr<const PeerRegion> loose;
  };
  std::vector<Place> places_;     // by number
  std::set<std::uint16_t> used_;  // numbers in use
};

}  // namespace crossdock::transport::shm
