#include "reads.h"

#include <algorithm>
#include <utility>

namespace crossdock::transport::fabric {
namespace {

bool follows(const PlacedPart& next, const ReadPart& last, const ReadableRegion& in) noexcept {
  return next.in.region == in.region && next.part.address == last.address + last.length &&
         next.part.to == last.to + last.length;
}

}  // namespace

ReadGroup::ReadGroup(std::span<const PlacedPart> parts, std::uint64_t max_read, std::shared_ptr<const void> keep)
    : keep_(std::move(keep)) {
  for (std::size_t i = 0; i < parts.size();) {
    const ReadableRegion& in = parts[i].in;
    ReadPart rest = parts[i].part;
    // Parts that follow each other at both ends are one read.
    for (++i; i < parts.size() && follows(parts[i], rest, in); ++i) rest.length += parts[i].part.length;
    while (rest.length > 0) {
      const ReadPart one{rest.address, std::min(rest.length, max_read), rest.to};
      reads_.emplace_back(*this, one, in.start + (rest.address - in.region->base), in.key);
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
