#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "array/bounds.h"
#include "device/region.h"
#include "session/published_table.h"

namespace crossdock::session {

/// The statistics of a column in one batch.
struct BatchStatistics {
  std::int64_t nulls = 0;
  std::optional<array::Bounds> bounds{};  ///< As BoundsFinder::finish().
};

/// Computes the statistics of top-level columns that have bounds, for each batch of a table. Reads each of their
/// buffers once, and trusts nothing in them. `regions`: those of the table, readable on the host. Throws
/// InvalidDataError, FileChangedError.
std::vector<std::vector<BatchStatistics>> compute_batch_statistics(
    const PublishedTable& table, std::span<const std::shared_ptr<const device::Region>> regions,
    std::span<const int> columns);

}  // namespace crossdock::session
