#pragma once

#include <array>
#include <cstdint>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Maps the type ids of a union to its children.
class UnionChildren {
 public:
  explicit UnionChildren(const Type& type) noexcept {
    index_.fill(-1);
    for (std::size_t i = 0; i < type.type_codes.size(); ++i) {
      index_[static_cast<std::uint8_t>(type.type_codes[i])] = static_cast<std::int16_t>(i);
    }
  }
  /// Returns the child's index; -1 for an id that no child has.
  int index(std::int8_t id) const noexcept { return index_[static_cast<std::uint8_t>(id)]; }

 private:
  std::array<std::int16_t, 256> index_;
};

}  // namespace crossdock::array
