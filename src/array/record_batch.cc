#include "crossdock/array/record_batch.h"

#include <algorithm>

#include "crossdock/array/tensor.h"

namespace crossdock::array {

std::int64_t RecordBatch::nbytes() const noexcept {
  std::int64_t sum = 0;
  for (const BufferView& buffer : buffers) sum += buffer.size_known() ? buffer.size : 0;
  return sum;
}

bool RecordBatch::sizes_known() const noexcept {
  return std::ranges::all_of(buffers, &BufferView::size_known) &&
         std::ranges::all_of(dictionaries, [](const std::shared_ptr<const RecordBatch>& dictionary) {
           return dictionary == nullptr || dictionary->sizes_known();
         });
}

bool RecordBatch::counts_fit() const noexcept {
  if (nodes.size() != schema->nodes().size() || dictionaries.size() != schema->dictionaries().size() ||
      variadic_counts.size() != static_cast<std::size_t>(schema->n_variadic()) ||
      (!variadic_sizes.empty() && variadic_sizes.size() != variadic_counts.size())) {
    return false;
  }
  auto left = static_cast<std::int64_t>(buffers.size()) - schema->n_buffers();
  for (const std::int64_t count : variadic_counts) {
    if (count < 0 || count > left) return false;
    left -= count;
  }
  return left == 0;
}

bool RecordBatch::host_readable() const noexcept {
  return !queue && event.native() == nullptr && event.failure() == nullptr && device::host_reaches(device.type);
}

}  // namespace crossdock::array
