#include "session/region_numbers.h"

#include <limits>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::session {

namespace {
constexpr std::size_t kNumbers = std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
}

std::uint16_t RegionNumbers::of(const std::shared_ptr<const device::Region>& region, bool* is_new) {
  if (region == nullptr) throw InvalidArgumentError("no region was given to number");
  if (const auto known = numbers_.find(region.get()); known != numbers_.end()) {
    *is_new = false;
    return known->second;
  }
  // Two numbers stay free, so that a removed number is never the next one to be assigned: see the header.
  if (numbers_.size() + 2 >= kNumbers) {
    throw ResourceError("this connection has all of its " + std::to_string(kNumbers) +
                        " region numbers in use; release batches, or publish fewer and larger tables");
  }
  while (next_ < regions_.size() && regions_[next_] != nullptr) ++next_;
  if (regions_.size() <= next_) regions_.resize(std::size_t{next_} + 1);
  numbers_.emplace(region.get(), next_);
  regions_[next_] = region;
  *is_new = true;
  return next_++;
}

void RegionNumbers::remove(std::uint16_t number) noexcept {
  const std::shared_ptr<const device::Region> region = std::move(regions_[number]);  // dropped last
  regions_[number] = nullptr;
  numbers_.erase(region.get());
}

}  // namespace crossdock::session
