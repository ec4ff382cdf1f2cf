#include "transport/net/announced_regions.h"

#include <iterator>
#include <limits>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {

void AnnouncedRegions::add(std::uint16_t number, std::uint64_t base, std::uint64_t size) {
  const auto refuse = [&](const std::string& what) {
    throw ProtocolError(where_ + " announced region " + std::to_string(number) + ", " + std::to_string(size) +
                        " bytes at address " + std::to_string(base) + ": " + what);
  };
  if (bases_.contains(number)) refuse("this number is in use; it must be retired first");
  if (bases_.size() >= max_) refuse("that is more than the " + std::to_string(max_) + " regions that are allowed here");
  if (size == 0) refuse("it has no bytes");
  if (size - 1 > std::numeric_limits<std::uint64_t>::max() - base) refuse("it ends behind the last address");
  const auto next = by_base_.lower_bound(base);
  const bool overlaps_next = next != by_base_.end() && next->first - base < size;
  const auto* const previous = before(base);
  if (overlaps_next || (previous != nullptr && (*previous)->contains(base, 1))) refuse("it overlaps another");
  const auto added = by_base_.emplace(base, std::make_shared<const PeerRegion>(base, size, nullptr)).first;
  try {
    bases_.emplace(number, base);
  } catch (...) {
    by_base_.erase(added);
    throw;
  }
}

void AnnouncedRegions::remove(std::uint16_t number) {
  const auto found = bases_.find(number);
  if (found == bases_.end()) {
    throw ProtocolError(where_ + " retired region " + std::to_string(number) + ", which it hadn't announced");
  }
  by_base_.erase(found->second);
  bases_.erase(found);
}

const std::shared_ptr<const PeerRegion>* AnnouncedRegions::before(std::uint64_t address) const noexcept {
  const auto behind = by_base_.upper_bound(address);
  return behind == by_base_.begin() ? nullptr : &std::prev(behind)->second;
}

const std::shared_ptr<const PeerRegion>& AnnouncedRegions::at(std::uint64_t address) const {
  const auto* const region = before(address);
  if (region != nullptr) return *region;
  throw ProtocolError(where_ + " sent the address " + std::to_string(address) +
                      ", which is in no region that it has announced");
}

const PeerRegion* AnnouncedRegions::find(std::uint64_t address, std::uint64_t length) const noexcept {
  const auto* const region = before(address);
  return region != nullptr && (*region)->contains(address, length) ? region->get() : nullptr;
}

}  // namespace crossdock::transport::net
