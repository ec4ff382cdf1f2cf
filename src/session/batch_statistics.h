#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "session/compute_batch_statistics.h"
#include "session/published_table.h"
#include "session/source_pool.h"
#include "session/table_task.h"

namespace crossdock::session {

/// The most batch statistics (of one column in one batch) that one request gets, and that are kept for a table.
inline constexpr std::size_t kMostBatchStatistics = std::size_t{1} << 20;

/// The batch statistics of one table's columns, which are computed when they are first asked for, and kept with the
/// table.
class BatchStatisticsCache {
 public:
  using Column = std::shared_ptr<const std::vector<BatchStatistics>>;

  /// Returns the statistics of some columns, by index, in their order. Computes those that aren't kept. On a thread of
  /// a pool; several may do so at once. Errors as of compute_batch_statistics().
  std::vector<Column> of(const PublishedTable& table, std::span<const std::shared_ptr<const device::Region>> regions,
                         std::span<const int> columns);

  /// Returns the task that makes the table of these columns' statistics, started. A task that isn't over, or whose
  /// table is still held, is shared. I/O thread. Throws ResourceError for too many of them, and as SourcePool::start().
  static std::shared_ptr<TableTask> task(const std::shared_ptr<const PublishedTable>& table,
                                         const std::vector<std::string>& columns, SourcePool& pool);

 private:
  std::map<std::vector<std::string>, std::weak_ptr<TableTask>> tasks_;  // of the I/O thread
  std::mutex mutex_;                                                    // guards these
  std::map<int, Column> kept_;
  std::size_t n_kept_ = 0;
};

}  // namespace crossdock::session
