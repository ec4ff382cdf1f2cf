#include "ipc/select.h"

#include "array/columns.h"

namespace crossdock::ipc {

BatchHeader select(const BatchHeader& header, const array::Schema& schema, const std::vector<int>& indices,
                   std::vector<std::size_t>* buffers) {
  const std::vector<array::ColumnStart> starts = array::column_starts(schema, header.variadic_counts);
  BatchHeader out;
  out.num_rows = header.num_rows;
  out.body_length = header.body_length;
  out.codec = header.codec;
  out.custom_metadata = header.custom_metadata;
  for (const int index : indices) {
    const array::ColumnStart& from = starts[static_cast<std::size_t>(index)];
    const array::ColumnStart& to = starts[static_cast<std::size_t>(index) + 1];
    for (std::size_t i = from.node; i < to.node; ++i) out.nodes.push_back(header.nodes[i]);
    for (std::size_t i = from.count; i < to.count; ++i) out.variadic_counts.push_back(header.variadic_counts[i]);
    for (std::size_t i = from.buffer; i < to.buffer; ++i) {
      out.buffers.push_back(header.buffers[i]);
      buffers->push_back(i);
    }
  }
  return out;
}

}  // namespace crossdock::ipc
