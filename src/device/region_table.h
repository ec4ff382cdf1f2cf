#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "device/region.h"

namespace crossdock::device {

/// An address on shm: the region's number in the top 16 bits, the offset in the region in the low 48. Offset 0 stays
/// unused.
inline constexpr int kOffsetBits = 48;
constexpr std::uint64_t make_address(std::uint16_t region, std::uint64_t offset) noexcept {
  return (static_cast<std::uint64_t>(region) << kOffsetBits) | offset;
}
constexpr std::uint16_t address_region(std::uint64_t address) noexcept {
  return static_cast<std::uint16_t>(address >> kOffsetBits);
}
constexpr std::uint64_t address_offset(std::uint64_t address) noexcept {
  return address & ((std::uint64_t{1} << kOffsetBits) - 1);
}

/// The regions of one connection by number: the server assigns numbers, the client looks them up. Not shared between
/// threads.
class RegionTable {
 public:
  /// Server: returns the region's number. `*is_new` says whether the region is new to this connection; announce it
  /// then. Numbers are assigned in a circle, and a removed number is assigned again only after another number. So a
  /// client that looks up an unknown number, and reads its announcements to find it, has also read that the old region
  /// of this number was retired. Throws ResourceError if 65,534 numbers are in use.
  std::uint16_t number_of(const std::shared_ptr<const Region>& region, bool* is_new);
  /// Client: adds the region that was announced under this number. Throws ProtocolError if the number is in use.
  void put(std::uint16_t number, std::shared_ptr<const Region> region);
  /// Client: drops the table's own references, so that each region is freed with its last other owner. Numbers stay in
  /// use. Call make_strong() before the next find().
  void make_weak() noexcept;
  /// Client: after make_weak(), takes references again to the regions that still have an owner. find() finds those.
  void make_strong() noexcept;
  /// Returns whether the number is assigned, by put() or number_of(), and not removed.
  bool in_use(std::uint16_t number) const noexcept;
  /// Returns the region of this number; null if there is none.
  const std::shared_ptr<const Region>& find(std::uint16_t number) const noexcept;
  /// Server and client: removes the region, so that its number is free again. Returns false if it wasn't in use.
  bool remove(std::uint16_t number) noexcept;
  std::size_t size() const noexcept { return in_use_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Place {
    std::shared_ptr<const Region> region;
    std::weak_ptr<const Region> loose;
    std::uint64_t size = 0;  // 0: not in use
  };
  void take(std::uint16_t number, std::shared_ptr<const Region> region);

  std::vector<Place> places_;
  std::set<std::uint16_t> put_;  // numbers in use that put() has added
  std::unordered_map<const Region*, std::uint16_t> numbers_;
  std::uint16_t next_ = 0;
  std::size_t in_use_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace crossdock::device
