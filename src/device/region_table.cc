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
  // Two stay free, so that a number that was taken back is not the very next to be given out: see the header.
  if (in_use_ + 2 >= kNumbers) {
    throw ResourceError("this connection has all of its " + std::to_string(kNumbers) +
                        " region numbers in use; release batches, or publish fewer and larger tables");
  }
  while (find(next_) != nullptr) ++next_;
  const std::uint16_t number = next_++;
  if (regions_.size() <= number) regions_.resize(std::size_t{number} + 1);
  numbers_.emplace(region.get(), number);
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
  numbers_.erase(region.get());
  --in_use_;
  bytes_ -= region->size();
  return true;
}

}  // namespace crossdock::device
