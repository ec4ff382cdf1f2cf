#include "crossdock/device/region_table.h"

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
  if (free_.empty()) {
    if (regions_.size() == kNumbers) {
      throw ResourceError("this connection has all of its " + std::to_string(kNumbers) +
                          " region numbers in use; release batches, or publish fewer and larger tables");
    }
    regions_.emplace_back();
    // Room for every number to be given back, so that remove() needs no memory.
    if (free_.capacity() < regions_.size()) free_.reserve(regions_.capacity());
    free_.push_back(static_cast<std::uint16_t>(regions_.size() - 1));
  }
  const std::uint16_t number = free_.back();
  numbers_.emplace(region.get(), number);
  free_.pop_back();
  regions_[number] = region;
  ++in_use_;
  bytes_ += region->size();
  *is_new = true;
  return number;
}

void RegionTable::put(std::uint16_t number, std::shared_ptr<const Region> region) {
  if (region == nullptr) throw InvalidArgumentError("no region was given for number " + std::to_string(number));
  if (find(number) != nullptr) {
    throw ProtocolError("the peer announced region " + std::to_string(number) + " twice without taking it back");
  }
  if (regions_.size() <= number) regions_.resize(std::size_t{number} + 1);
  ++in_use_;
  bytes_ += region->size();
  regions_[number] = std::move(region);
}

const std::shared_ptr<const Region>& RegionTable::find(std::uint16_t number) const noexcept {
  static const std::shared_ptr<const Region> none;
  return number < regions_.size() ? regions_[number] : none;
}

bool RegionTable::remove(std::uint16_t number) noexcept {
  if (find(number) == nullptr) return false;
  const std::shared_ptr<const Region> region = std::move(regions_[number]);
  regions_[number] = nullptr;
  // Only numbers that we gave out are ours to give out again; the client's are its peer's.
  if (numbers_.erase(region.get()) != 0) free_.push_back(number);
  --in_use_;
  bytes_ -= region->size();
  return true;
}

}  // namespace crossdock::device
