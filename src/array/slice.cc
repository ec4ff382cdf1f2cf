#include "array/slice.h"

#include <string>

#include "array/columns.h"
#include "crossdock/core/error.h"

namespace crossdock::array {

RecordBatch slice_rows(RecordBatch batch, std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || first > batch.num_rows || count > batch.num_rows - first) {
    throw InvalidArgumentError("slice_rows: a batch of " + std::to_string(batch.num_rows) + " rows has no " +
                               std::to_string(count) + " rows from row " + std::to_string(first) + " on");
  }
  const std::vector<ColumnStart> starts = column_starts(*batch.schema, batch.variadic_counts);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    Node& node = batch.nodes[starts[i].node];
    node.offset += first;
    node.length = count;
    if (node.null_count != 0) node.null_count = -1;
  }
  batch.num_rows = count;
  return batch;
}

}  // namespace crossdock::array
