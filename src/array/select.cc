#include "array/columns.h"
#include "array/internal/check_structure.h"
#include "array/internal/node_path.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

template <typename T>
void append(const std::vector<T>& from, std::size_t begin, std::size_t end, std::vector<T>* to) {
  to->insert(to->end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
             from.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

std::vector<ColumnStart> column_starts(const Schema& schema, const std::vector<std::int64_t>& variadic_counts) {
  BufferCursor at(variadic_counts);
  std::vector<ColumnStart> starts;
  starts.reserve(schema.fields().size() + 1);
  ColumnStart next = starts.emplace_back();
  while (next.node < schema.nodes().size()) {
    for (const std::size_t end = subtree_end(schema, next.node); next.node < end; ++next.node) {
      const LayoutNode& layout = schema.nodes()[next.node];
      at.enter(layout);
      next.buffer = at.end();
      if (layout.type.variadic) ++next.count;
      if (layout.dictionary_slot >= 0) ++next.slot;
    }
    starts.push_back(next);
  }
  return starts;
}

RecordBatch select_columns(const RecordBatch& batch, std::shared_ptr<const Schema> schema,
                           const std::vector<int>& indices) {
  if (!batch.counts_fit()) throw InvalidArgumentError("select_columns" + counts_message(batch));
  const std::vector<ColumnStart> starts = column_starts(*batch.schema, batch.variadic_counts);
  RecordBatch out;
  static_cast<device::Memory&>(out) = batch;
  out.num_rows = batch.num_rows;
  out.custom_metadata = batch.custom_metadata;
  out.nodes.reserve(schema->nodes().size());
  out.buffers.reserve(static_cast<std::size_t>(schema->n_buffers()));
  out.dictionaries.reserve(schema->dictionaries().size());
  if (indices.size() != schema->fields().size()) {
    throw InvalidArgumentError("select_columns: " + std::to_string(indices.size()) + " indices for a schema of " +
                               std::to_string(schema->fields().size()) + " fields");
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const int index = indices[i];
    const auto n_columns = std::ssize(starts) - 1;
    if (index < 0 || index >= n_columns) {
      throw InvalidArgumentError("select_columns: there is no column " + std::to_string(index) + " among " +
                                 std::to_string(n_columns));
    }
    const ColumnStart& from = starts[static_cast<std::size_t>(index)];
    const ColumnStart& to = starts[static_cast<std::size_t>(index) + 1];
    append(batch.nodes, from.node, to.node, &out.nodes);
    append(batch.buffers, from.buffer, to.buffer, &out.buffers);
    append(batch.variadic_counts, from.count, to.count, &out.variadic_counts);
    if (!batch.variadic_sizes.empty()) append(batch.variadic_sizes, from.count, to.count, &out.variadic_sizes);
    append(batch.dictionaries, from.slot, to.slot, &out.dictionaries);
  }
  out.schema = std::move(schema);
  if (!out.counts_fit()) throw InvalidArgumentError("select_columns" + counts_message(out));
  return out;
}

std::shared_ptr<const Schema> select_fields(const Schema& schema, const std::vector<std::string>& names,
                                            std::vector<int>* indices) {
  std::vector<int> found;
  std::vector<Field> fields;
  found.reserve(names.size());
  fields.reserve(names.size());
  for (const std::string& name : names) {
    found.push_back(static_cast<int>(schema.index_of(name)));
    fields.push_back(schema.fields()[static_cast<std::size_t>(found.back())]);
  }
  auto selected = std::make_shared<Schema>(std::move(fields), schema.metadata());
  *indices = std::move(found);
  return selected;
}

}  // namespace crossdock::array
