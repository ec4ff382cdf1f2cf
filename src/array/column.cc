#include "array/column.h"

#include <string_view>

namespace crossdock::array {
namespace {

bool is_struct(const ArrowSchema& schema) noexcept {
  return schema.format != nullptr && std::string_view(schema.format) == "+s" && schema.dictionary == nullptr;
}

void release_column(ArrowArray* table) noexcept {
  ArrowArray* const column = table->children[0];
  if (column->release != nullptr) column->release(column);
  delete column;
  delete[] table->children;
  delete[] table->buffers;
  table->release = nullptr;
}

/// Moves `*column` into a struct array of that one child. On a throw nothing has changed.
void wrap(ArrowDeviceArray* column) {
  auto child = std::make_unique<ArrowArray>();
  auto children = std::make_unique<ArrowArray*[]>(1);
  auto buffers = std::make_unique<const void*[]>(1);
  *child = column->array;
  column->array = {};
  column->array.length = child->length;
  column->array.n_buffers = 1;
  column->array.n_children = 1;
  children[0] = child.release();
  column->array.children = children.release();
  column->array.buffers = buffers.release();
  column->array.release = release_column;
}

}  // namespace

TableSchema import_table_schema(ArrowSchema* field) {
  if (is_struct(*field)) return {.schema = import_schema(*field), .of_column = false};
  ArrowSchema table{};
  table.format = "+s";
  table.name = "";
  table.n_children = 1;
  table.children = &field;
  table.release = [](ArrowSchema* self) { self->release = nullptr; };
  return {.schema = import_schema(table), .of_column = true};
}

RecordBatch import_table(const TableSchema& schema, ArrowDeviceArray* array) {
  if (schema.of_column && array->array.release != nullptr) wrap(array);
  return import_batch(schema.schema, array);
}

}  // namespace crossdock::array
