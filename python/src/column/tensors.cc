#include "tensors.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../gil.h"
#include "../tensor/tensor.h"
#include "../tensor/transfer.h"
#include "core/amounts.h"
#include "core/text.h"
#include "crossdock/array/column_view.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/arrow_tensor.h"
#include "exchange/memory_kind.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Field;
using array::RecordBatch;
using array::TypeId;
using exchange::BoolPolicy;

nb::object tensor_of_column(const RecordBatch& column) {
  array::Tensor tensor;
  {
    const GilRelease release;  // bool is converted, which takes longer for more elements; a device may be opened
    tensor = exchange::tensor_of_column(column, BoolPolicy::kConvert);
    if (exchange::leaves_kind_open(column.device.type)) exchange::resolve_memory_kind(&tensor, tensor.data, drivers());
  }
  return checked(new_tensor(std::move(tensor)));
}

/// Makes numbers of the types that have elements of fixed size and no tensors of their own.
void make_numbers(Field* field) {
  switch (field->type.id) {
    case TypeId::kDate32:
    case TypeId::kTime32:
    case TypeId::kDecimal32:
    case TypeId::kIntervalMonths: field->type = {.id = TypeId::kInt32}; break;
    case TypeId::kDecimal64:
    case TypeId::kTime64: field->type = {.id = TypeId::kInt64}; break;
    case TypeId::kTimestamp: field->type.timezone.clear(); break;
    case TypeId::kDecimal128:
    case TypeId::kDecimal256:
    case TypeId::kIntervalDayTime:
    case TypeId::kIntervalMonthDayNano:
      field->type = {.id = TypeId::kFixedSizeBinary, .fixed_size = array::type_layout(field->type).width};
      break;
    default: break;
  }
  field->dictionary = nullptr;
  field->metadata.clear();
  for (Field& child : field->children) make_numbers(&child);
}

[[noreturn]] void refuse(const Field& field, const char* instead) {
  throw ExportError("column " + shown(field.name) + " of type " + array::type_name(field.type) +
                    " has no elements of fixed size; " + instead);
}

/// Returns whether the type is a number or a fixed number of numbers, whose nodes have no buffers but validity and
/// values.
bool is_fixed(const Field& field) {
  if (field.type.id == TypeId::kFixedSizeList) return is_fixed(field.children[0]);
  if (field.type.id == TypeId::kBool) return true;
  const array::TypeLayout layout = array::type_layout(field.type);
  return layout.n_buffers == 2 && layout.buffers[1] == array::BufferKind::kFixed;
}

}  // namespace

nb::object values_of(RecordBatch column) {
  const Field& field = column.schema->fields()[0];
  if (!is_fixed(field)) refuse(field, "to_pylist() has them, and column[i] has one");
  Field numbers = field;
  make_numbers(&numbers);
  for (std::size_t i = 0; i < column.nodes.size(); ++i) {
    column.nodes[i].null_count = 0;
    column.buffers[static_cast<std::size_t>(column.schema->nodes()[i].first_buffer)] = {};  // the validity
  }
  column.dictionaries.clear();
  column.schema = std::make_shared<array::Schema>(std::vector<Field>{std::move(numbers)});
  return tensor_of_column(column);
}

nb::object validity_of(const RecordBatch& column) {
  Field bits;
  bits.type.id = TypeId::kBool;
  RecordBatch made;
  static_cast<device::Memory&>(made) = column;
  made.schema = std::make_shared<array::Schema>(std::vector<Field>{std::move(bits)});
  made.num_rows = column.num_rows;
  made.nodes = {{column.nodes[0].length, 0, column.nodes[0].offset}};
  if (column.schema->nodes()[0].type.has_validity()) {
    made.buffers = {{}, column.buffers[0]};
  } else {  // the null type has none: nothing is valid
    const auto size = static_cast<std::size_t>(made.num_rows / 8 + 1);
    const std::shared_ptr<std::byte[]> zeros(new std::byte[size]());
    made.nodes[0].offset = 0;
    made.buffers = {{}, {zeros.get(), static_cast<std::int64_t>(size)}};
    made.owner = zeros;
  }
  return tensor_of_column(made);
}

nb::object array_of(const RecordBatch& column) {
  const Field& field = column.schema->fields()[0];
  if (field.dictionary != nullptr) {
    throw ExportError("column " + shown(field.name) +
                      " is dictionary-encoded: .values has its indices, .dictionary the "
                      "values that they count, and to_pylist() has the elements");
  }
  if (!is_fixed(field)) refuse(field, "to_pylist() has them, and column[i] has one");
  const std::int64_t nulls = column.host_readable() ? array::ColumnView(column, 0).null_count() : 0;
  if (nulls > 0) {
    throw ExportError("column " + shown(field.name) + " has " + counted(nulls, "null") +
                      ", which an array can't have; .values has its numbers and .validity says which of them "
                      "count, and to_pylist() has None for the others");
  }
  return tensor_of_column(column);
}

}  // namespace crossdock::python
