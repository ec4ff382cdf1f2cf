#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Where a column begins in the flat arrays of a batch.
struct ColumnStart {
  std::size_t node = 0, buffer = 0, slot = 0;
  std::size_t count = 0;  ///< Of variadic counts.
};

/// Returns where each column of a batch begins, and where the last one ends. `variadic_counts` has one entry for each
/// variadic node.
std::vector<ColumnStart> column_starts(const Schema& schema, const std::vector<std::int64_t>& variadic_counts);

}  // namespace crossdock::array
