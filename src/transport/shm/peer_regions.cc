#include "peer_regions.h"

#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport::shm {

void PeerRegions::put(std::uint16_t number, std::shared_ptr<const PeerRegion> region) {
  if (places_.size() <= number) places_.resize(std::size_t{number} + 1);
  if (!used_.insert(number).second) {
    throw ProtocolError("the peer announced region " + std::to_string(number) + " again without retiring it first");
  }
  places_[number].region = std::move(region);
}

void PeerRegions::make_weak() noexcept {
  for (const std::uint16_t number : used_) {
    Place& place = places_[number];
    if (place.region == nullptr) continue;
    place.loose = place.region;
    place.region = nullptr;
  }
}

void PeerRegions::make_strong() noexcept {
  for (const std::uint16_t number : used_) {
    Place& place = places_[number];
    if (place.region == nullptr) place.region = place.loose.lock();
    place.loose.reset();
  }
}

bool PeerRegions::in_use(std::uint16_t number) const noexcept { return used_.contains(number); }

const std::shared_ptr<const PeerRegion>& PeerRegions::find(std::uint16_t number) const noexcept {
  static const std::shared_ptr<const PeerRegion> none;
  return number < places_.size() ? places_[number].region : none;
}

bool PeerRegions::remove(std::uint16_t number) noexcept {
  if (used_.erase(number) == 0) return false;
  places_[number] = {};
  return true;
}

}  // namespace crossdock::transport::shm
