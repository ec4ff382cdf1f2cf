#include "session/batch_layout.h"

#include <limits>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

std::vector<BatchRange> batches_of(array::BatchStream& statistics, RowRange* rows, std::uint64_t* all) {
  *all = 0;
  const std::vector<array::Field>& fields = statistics.schema()->fields();
  if (fields.empty() || fields[0].name != "rows" || fields[0].type.id != array::TypeId::kInt64 ||
      fields[0].dictionary) {
    throw InvalidDataError("the server's batch statistics are invalid: their first column isn't int64 numbers of rows");
  }
  const RowRange wanted = *rows;
  std::vector<BatchRange> found;
  std::uint64_t begin = 0;  // the first row of the first batch that is wanted
  std::uint64_t at = 0;     // the row that the next batch begins with
  std::uint64_t place = 0;  // of the next batch
  bool is_first = true;
  while (const std::optional<array::RecordBatch> batch = statistics.next()) {
    if (!std::exchange(is_first, false))
      throw InvalidDataError("the server's batch statistics have more than one batch");
    if (batch->nodes[0].null_count != 0)
      throw InvalidDataError("the server's batch statistics have a null number of rows");
    const auto* const numbers = static_cast<const std::byte*>(batch->buffers[1].data);
    for (std::int64_t i = 0; i < batch->num_rows; ++i, ++place) {
      const auto count = load_le<std::int64_t>(numbers + (batch->nodes[0].offset + i) * 8);
      if (count < 0 || static_cast<std::uint64_t>(count) > std::numeric_limits<std::int64_t>::max() - at ||
          place > std::numeric_limits<std::uint32_t>::max()) {
        throw InvalidDataError("the server's batch statistics have a batch of " + std::to_string(count) +
                               " rows, or too many");
      }
      const std::uint64_t end = at + static_cast<std::uint64_t>(count);
      if (wanted.count > 0 && end > wanted.first && at < end &&
          (at < wanted.first || at - wanted.first < wanted.count)) {
        if (found.empty()) {
          found.push_back({static_cast<std::uint32_t>(place), 0});
          begin = at;
          rows->first = wanted.first > at ? wanted.first - at : 0;
        }
        found.front().count = static_cast<std::uint32_t>(place - found.front().first + 1);
        *all = end - begin;
      }
      at = end;
    }
  }
  return found;
}

}  // namespace crossdock::session
