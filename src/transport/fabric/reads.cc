#include "reads.h"

#include <algorithm>
#include <utility>

namespace crossdock::transport::fabric {

ReadGroup::ReadGroup(std::span<const PlacedPart> parts, std::uint64_t max_read, std::shared_ptr<const void> keep)
    : keep_(std::move(keep)) {
  for (const PlacedPart& placed : parts) {
    ReadPart rest = placed.part;
    while (rest.length > 0) {
      const ReadPart one{rest.address, std::min(rest.length, max_read), rest.to};
      reads_.emplace_back(*this, one, placed.in.start + (rest.address - placed.in.region->base), placed.in.key);
      rest = {rest.address + one.length, rest.length - one.length, rest.to + one.length};
    }
  }
}

bool ReadGroup::post(Endpoint& endpoint) {
  while (posted_ < reads_.size()) {
    if (!reads_[posted_].begin(endpoint)) return false;
    ++posted_;
  }
  return true;
}

}  // namespace crossdock::transport::fabric
