#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/region.h"

namespace crossdock::session {

/// The numbers under which a connection announces regions. Not shared between threads.
class RegionNumbers {
 public:
  /// Returns the region's number. `*is_new` says whether the region is new to this connection. Numbers are assigned in
  /// a circle, and a removed number is assigned again only after another number. So a client that looks up an unknown
  /// number, and reads its announcements to find it, has also read that the old region of this number was retired.
  /// Throws ResourceError if 65,534 numbers are in use.
  std::uint16_t of(const std::shared_ptr<const device::Region>& region, bool* is_new);
  /// Removes the region, so that its number is free again. The number must be in use.
  void remove(std::uint16_t number) noexcept;
  bool knows(const std::shared_ptr<const device::Region>& region) const noexcept {
    return numbers_.contains(region.get());
  }
  std::size_t size() const noexcept { return numbers_.size(); }

 private:
  std::vector<std::shared_ptr<const device::Region>> regions_;  // by number; null: not in use
  std::unordered_map<const device::Region*, std::uint16_t> numbers_;
  std::uint16_t next_ = 0;
};

}  // namespace crossdock::session
