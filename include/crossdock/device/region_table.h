#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/region.h"

namespace crossdock::device {

/// An address on shm: the region's number in the top 16 bits, the offset in it in the low 48. Offset 0 stays unused.
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

/// The regions of one connection by number: the server gives numbers out, the client looks them up. Not shared between
/// threads.
class CROSSDOCK_EXPORT RegionTable {
 public:
  /// Server: the region's number, and whether it is new to this connection (then announce it). Numbers go round, and
  /// one that was removed comes again only after another: so a client that looks an unknown number up, and reads its
  /// announcements to find it, has also read that the old one was retired. Throws ResourceError when 65,534 numbers are
  /// in use.
  std::uint16_t number_of(const std::shared_ptr<const Region>& region, bool* is_new);
  /// Client: what was announced under this number. Throws ProtocolError if it is taken.
  void put(std::uint16_t number, std::shared_ptr<const Region> region);
  /// Client: drops the table's own references, so that each region is freed with its last other owner. Numbers stay in
  /// use. Call make_strong() before the next find().
  void make_weak() noexcept;
  /// Client: after make_weak(), takes references again to the regions that still have an owner. find() finds those.
  void make_strong() noexcept;
  /// Whether put() or number_of() has given the number out and remove() hasn't taken it back.
  bool in_use(std::uint16_t number) const noexcept;
  /// Null if there is none.
  const std::shared_ptr<const Region>& find(std::uint16_t number) const noexcept;
  /// Both: the number is free again. False if it wasn't in use.
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
  std::set<std::uint16_t> put_;  // numbers in use that put() has given out
  std::unordered_map<const Region*, std::uint16_t> numbers_;
  std::uint16_t next_ = 0;
  std::size_t in_use_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace crossdock::device
