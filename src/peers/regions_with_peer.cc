#include "peers/regions_with_peer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "device/leak.h"

namespace crossdock::peers {
namespace {

/// As many as session::RegionNumbers has.
constexpr std::size_t kMostRegions = 65'534;
/// Received memory whose frames have owners of their own is kept by each of them. The peer releases frames by their
/// number alone, so all are kept until it has none: where it always has one, this ends the growth.
constexpr std::size_t kMostKeeps = 4096;

/// Two owners may hold the same pointer, and keep different things.
bool same_owner(const std::shared_ptr<const void>& a, const std::shared_ptr<const void>& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

RegionsWithPeer::Outcome RegionsWithPeer::place(transport::Connection& connection, const SharedFrame& frame,
                                                std::uint32_t most, Place* place) {
  bool is_new = false;
  if (entries_.size() >= std::min<std::size_t>(most, kMostRegions) && !numbers_.knows(frame.region)) {
    return Outcome::kByValue;
  }
  const std::uint16_t number = numbers_.of(frame.region, &is_new);
  if (is_new) {
    try {
      const auto base = connection.announce(number, frame.region);
      if (!base) {
        numbers_.remove(number);
        return Outcome::kNoRoom;
      }
      entries_.try_emplace(number, Entry{.base = *base, .frames = 0, .memory = frame, .keeps = {}});
    } catch (...) {
      numbers_.remove(number);
      throw;
    }
  }
  Entry& entry = entries_.at(number);
  if (!is_new && frame.keep && !same_owner(frame.keep, entry.memory.keep)) {
    if (entry.keeps.size() >= kMostKeeps) return Outcome::kByValue;
    entry.keeps.push_back(frame.keep);
  }
  if (entry.frames++ == 0) std::erase(free_, number);
  *place = {entry.base + frame.offset, number};
  return Outcome::kPlaced;
}

void RegionsWithPeer::released(const wire::Released& what) {
  const auto found = what.region > 0xFFFF ? entries_.end() : entries_.find(static_cast<std::uint16_t>(what.region));
  if (found == entries_.end() || what.frames == 0 || what.frames > found->second.frames) {
    throw ProtocolError("the peer releases " + std::to_string(what.frames) + " frames of region " +
                        std::to_string(what.region) + ", of which it has " +
                        std::to_string(found == entries_.end() ? 0 : found->second.frames));
  }
  found->second.frames -= what.frames;
  if (found->second.frames == 0) free_.push_back(found->first);
}

bool RegionsWithPeer::retire(transport::Connection& connection) {
  while (!free_.empty()) {
    const std::uint16_t number = free_.back();
    if (!connection.retire(number)) return false;
    free_.pop_back();
    numbers_.remove(number);
    entries_.erase(number);
  }
  return true;
}

void RegionsWithPeer::abandon() noexcept {
  for (auto& [number, entry] : entries_) {
    if (entry.frames == 0) continue;
    entry.memory.region->never_reuse();
    if (entry.memory.keep) device::leak(std::move(entry.memory.keep));
    for (auto& keep : entry.keeps) device::leak(std::move(keep));
  }
  numbers_ = {};
  entries_.clear();
  free_.clear();
}

}  // namespace crossdock::peers
