#include "device/region_table.h"

#include <limits>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::device {

namespace {
constexpr std::size_t kNumbers = std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
}

std::uint16_t RegionTable::number_of(const std::shared_ptr<const Region>& region, bool* is_new) {
  if (region == nullptr) throw InvalidArgumentError("no region was given to number");
  if (const auto known = numbers_.find(region.get()); known != numbers_.end()) {
    *is_new = false;
    return known->second;
  }
  // Two numbers stay free, so that a removed number is never the next one to be assigned: see the header.
  if (in_use_ + 2 >= kNumbers) {
    throw ResourceError("this connection has all of its " + std::to_string(kNumbers) +
                        " region numbers in use; release batches, or publish fewer and larger tables");
  }
  while (in_use(next_)) ++next_;
  const std::uint16_t number = next_;
  numbers_.emplace(region.get(), number);
  try {
    take(number, region);
  } catch (...) {
    numbers_.erase(region.get());
    throw;
  }
  ++next_;
  *is_new = true;
  return number;
}

void RegionTable::take(std::uint16_t number, std::shared_ptr<const Region> region) {
  if (places_.size() <= number) places_.resize(std::size_t{number} + 1);
  Place& place = places_[number];
  place.size = region->size();
  place.region = std::move(region);
  ++in_use_;
  bytes_ += place.size;
}

void RegionTable::put(std::uint16_t number, std::shared_ptr<const Region> region) {
  if (region == nullptr) throw InvalidArgumentError("no region was given for number " + std::to_string(number));
  if (in_use(number)) {
    throw ProtocolError("the peer announced region " + std::to_string(number) + " again without retiring it first");
  }
  put_.insert(number);
  try {
    take(number, std::move(region));
  } catch (...) {
    put_.erase(number);
    throw;
  }
}

void RegionTable::make_weak() noexcept {
  for (const std::uint16_t number : put_) {
    Place& place = places_[number];
    if (place.region == nullptr) continue;
    place.loose = place.region;
    place.region = nullptr;
  }
}

void RegionTable::make_strong() noexcept {
  for (const std::uint16_t number : put_) {
    Place& place = places_[number];
    if (place.region == nullptr) place.region = place.loose.lock();
    place.loose.reset();
  }
}

bool RegionTable::in_use(std::uint16_t number) const noexcept {
  return number < places_.size() && places_[number].size != 0;
}

const std::shared_ptr<const Region>& RegionTable::find(std::uint16_t number) const noexcept {
  static const std::shared_ptr<const Region> none;
  return number < places_.size() ? places_[number].region : none;
}

bool RegionTable::remove(std::uint16_t number) noexcept {
  if (!in_use(number)) return false;
  const Place place = std::exchange(places_[number], {});  // dropped last
  if (put_.erase(number) == 0) numbers_.erase(place.region.get());
  --in_use_;
  bytes_ -= place.size;
  return true;
}

}  // namespace crossdock::device
