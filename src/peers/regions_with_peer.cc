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
/// As many as any receiver takes.
constexpr std::size_t kMostAnnounced = 1 << 16;
/// Received memory whose frames have owners of their own is kept by each of them. The peer releases frames by their
/// number alone, so all are kept until it has none: where it always has one, this ends the growth.
constexpr std::size_t kMostKeeps = 4096;

/// Two owners may hold the same pointer, and keep different things.
bool same_owner(const std::shared_ptr<const void>& a, const std::shared_ptr<const void>& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

/// Whether the peer may be shown another region, beside those that it has and more. It maps those of frames, and those
/// of which it hasn't read that they are retired: announcements overtake that, and frames that weren't sent are no
/// reason for the peer to answer.
bool RegionsWithPeer::has_room(const device::Region& region, std::uint32_t most, std::size_t more_regions,
                               std::uint64_t more_bytes) const noexcept {
  const std::uint64_t lent = lent_ + more_bytes;
  if (lent > 0 && (lent >= lease_limit_ || region.size() > lease_limit_ - lent)) return false;
  const std::size_t mapped = entries_.size() + more_regions;
  const std::size_t frames = std::min<std::size_t>(most, kMostRegions);
  return mapped < frames && mapped + retired_regions_ < std::min(2 * frames, kMostAnnounced);
}

bool RegionsWithPeer::Plan::by_value(const SharedFrame& frame) {
  if (regions_.numbers_.knows(frame.region) || new_.contains(frame.region.get())) return false;
  if (!regions_.has_room(*frame.region, most_, new_.size(), new_bytes_)) return true;
  new_.insert(frame.region.get());
  new_bytes_ += frame.region->size();
  return false;
}

RegionsWithPeer::Outcome RegionsWithPeer::place(transport::Connection& connection, const SharedFrame& frame,
                                                std::uint32_t most, Place* place) {
  bool is_new = false;
  if (!numbers_.knows(frame.region) && !has_room(*frame.region, most)) return Outcome::kByValue;
  const std::uint16_t number = numbers_.of(frame.region, &is_new);
  if (is_new) {
    try {
      const auto base = connection.announce(number, frame.region);
      if (!base) {
        numbers_.remove(number);
        return Outcome::kNoRoom;
      }
      entries_.try_emplace(number, Entry{.base = *base, .frames = 0, .memory = frame, .keeps = {}});
      lent_ += frame.region->size();
    } catch (const ResourceError&) {
      numbers_.remove(number);
      return Outcome::kByValue;
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

bool RegionsWithPeer::retire(transport::Connection& connection, std::uint64_t sent) {
  while (!free_.empty()) {
    const std::uint16_t number = free_.back();
    if (!connection.retire(number)) return false;
    free_.pop_back();
    if (retired_.empty() || retired_.back().sent != sent) retired_.push_back({sent, 0});
    ++retired_.back().regions;
    ++retired_regions_;
    numbers_.remove(number);
    const auto retired = entries_.find(number);
    lent_ -= retired->second.memory.region->size();
    entries_.erase(retired);
  }
  return true;
}

void RegionsWithPeer::peer_took(std::uint64_t messages) noexcept {
  for (; !retired_.empty() && retired_.front().sent < messages; retired_.pop_front()) {
    retired_regions_ -= retired_.front().regions;
  }
}

void RegionsWithPeer::abandon() noexcept {
  for (auto& [number, entry] : entries_) {
    if (entry.frames == 0) continue;
    entry.memory.region->never_reuse();
    if (entry.memory.keep) device::leak(std::move(entry.memory.keep));
    for (auto& keep : entry.keeps) device::leak(std::move(keep));
  }
  numbers_ = {};
  lent_ = 0;
  entries_.clear();
  free_.clear();
}

}  // namespace crossdock::peers
