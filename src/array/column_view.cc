#include "crossdock/array/column_view.h"

#include <algorithm>

#include "array/internal/bits.h"
#include "array/internal/check_structure.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "array/view_layout.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

bool is_wide(TypeId id) noexcept {
  return id == TypeId::kLargeUtf8 || id == TypeId::kLargeBinary || id == TypeId::kLargeList ||
         id == TypeId::kLargeListView;
}

}  // namespace

ColumnView::ColumnView(const RecordBatch& batch, std::size_t column) {
  const Schema& schema = *batch.schema;
  if (!batch.counts_fit()) throw InvalidArgumentError("ColumnView" + counts_message(batch));
  check_readable(batch, "ColumnView");
  if (column >= schema.fields().size()) {
    throw InvalidArgumentError("there is no column " + std::to_string(column) + " among " +
                               std::to_string(schema.fields().size()));
  }
  std::size_t node = column;
  if (schema.nodes().size() != schema.fields().size()) {
    node = 0;
    for (std::size_t i = 0; i < column; ++i) node = subtree_end(schema, node);
  }
  *this = at_node(batch, node);
}

std::span<const BufferView> ColumnView::buffers() const noexcept {
  return std::span(batch_->buffers).subspan(first_buffer_, layout_->type.n_buffers + n_variadic_);
}

ColumnView ColumnView::at_node(const RecordBatch& batch, std::size_t node) {
  const std::vector<LayoutNode>& layouts = batch.schema->nodes();
  ColumnView view;
  view.batch_ = &batch;
  view.layout_ = &layouts[node];
  view.first_buffer_ = static_cast<std::size_t>(view.layout_->first_buffer);
  if (batch.schema->has_views()) [[unlikely]] {
    std::size_t views = 0;
    for (std::size_t i = 0; i < node; ++i) {
      if (layouts[i].type.variadic) view.first_buffer_ += static_cast<std::size_t>(batch.variadic_counts[views++]);
    }
    if (view.layout_->type.variadic) view.n_variadic_ = static_cast<std::size_t>(batch.variadic_counts[views]);
  }
  view.offset_ = batch.nodes[node].offset;
  view.length_ = batch.nodes[node].length;
  return view;
}

ColumnView ColumnView::slice(std::int64_t start, std::int64_t length) const {
  if (start < 0 || length < 0 || start > length_ || length > length_ - start) {
    throw InvalidArgumentError("there are no " + std::to_string(length) + " elements from " + std::to_string(start) +
                               " on: the column has " + std::to_string(length_));
  }
  ColumnView part = *this;
  part.offset_ += start;
  part.length_ = length;
  return part;
}

std::int64_t ColumnView::null_count() const {
  if (layout_->id == TypeId::kNull) return length_;
  if (!layout_->type.has_validity() || buffer(0).data == nullptr) return 0;
  const Node& node = batch_->nodes[static_cast<std::size_t>(layout_ - batch_->schema->nodes().data())];
  if (node.null_count == 0) return 0;
  if (node.null_count > 0 && node.offset == offset_ && node.length == length_) return node.null_count;
  return length_ - count_bits(static_cast<const std::byte*>(buffer(0).data), offset_, length_);
}

bool ColumnView::boolean(std::int64_t index) const {
  check_index(index);
  if (layout_->id != TypeId::kBool) throw_wrong_type("bool");
  return bit(buffer(1).data, offset_ + index);
}

std::int64_t ColumnView::number_at(std::size_t which, std::int64_t at, bool wide) const {
  return load_integer(wide ? TypeId::kInt64 : TypeId::kInt32, buffer(which).data, at);
}

std::string_view ColumnView::bytes(std::int64_t index) const {
  check_index(index);
  switch (layout_->id) {
    case TypeId::kUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeUtf8:
    case TypeId::kLargeBinary: {
      const bool wide = is_wide(layout_->id);
      const std::int64_t first = number_at(1, offset_ + index, wide);
      const std::int64_t last = number_at(1, offset_ + index + 1, wide);
      const BufferView& data = buffer(2);
      if (first < 0 || last < first || (data.size_known() && last > data.size)) {
        throw_damaged(index, "its offsets are outside of the bytes that they point into");
      }
      if (first == last) return {};
      return {static_cast<const char*>(data.data) + first, static_cast<std::size_t>(last - first)};
    }
    case TypeId::kUtf8View:
    case TypeId::kBinaryView: return viewed(index);
    default: break;
  }
  if (layout_->type.n_buffers != 2 || layout_->type.buffers[1] != BufferKind::kFixed) throw_wrong_type("bytes");
  const auto width = static_cast<std::size_t>(layout_->type.width);
  if (width == 0) return {};
  return as_text({fixed(index, width), width});
}

std::string_view ColumnView::viewed(std::int64_t index) const {
  const std::byte* const view = static_cast<const std::byte*>(buffer(1).data) + (offset_ + index) * 16;
  const std::int64_t size = load_once<std::int32_t>(view);
  if (size >= 0 && size <= kMaxInline) return as_text({view + 4, static_cast<std::size_t>(size)});
  const std::int64_t which = load_once<std::int32_t>(view + 8);
  const std::int64_t first = load_once<std::int32_t>(view + 12);
  if (size < 0 || which < 0 || static_cast<std::size_t>(which) >= n_variadic_ || first < 0) {
    throw_damaged(index, "its view names bytes that aren't there");
  }
  const BufferView& data = buffer(2 + static_cast<std::size_t>(which));
  if (data.size_known() && first + size > data.size) throw_damaged(index, "its view ends after its buffer");
  return {static_cast<const char*>(data.data) + first, static_cast<std::size_t>(size)};
}

ColumnView ColumnView::child(std::size_t index) const {
  if (index >= n_children()) {
    throw InvalidArgumentError("there is no child " + std::to_string(index) + " of a column of " +
                               type_name(field().type));
  }
  const Schema& schema = *batch_->schema;
  auto node = static_cast<std::size_t>(layout_ - schema.nodes().data()) + 1;
  for (std::size_t i = 0; i < index; ++i) node = subtree_end(schema, node);
  const ColumnView whole = at_node(*batch_, node);
  if (layout_->id != TypeId::kStruct && layout_->id != TypeId::kSparseUnion) return whole;
  return whole.slice(offset_, length_);
}

ElementRange ColumnView::elements(std::int64_t index) const {
  check_index(index);
  const std::int64_t at = offset_ + index;
  std::int64_t start = 0;
  std::int64_t length = 0;
  switch (layout_->id) {
    case TypeId::kList:
    case TypeId::kMap:
    case TypeId::kLargeList: {
      const bool wide = is_wide(layout_->id);
      start = number_at(1, at, wide);
      const std::int64_t end = number_at(1, at + 1, wide);
      length = start < 0 || end < start ? -1 : end - start;
      break;
    }
    case TypeId::kListView:
    case TypeId::kLargeListView: {
      const bool wide = is_wide(layout_->id);
      start = number_at(1, at, wide);
      length = number_at(2, at, wide);
      break;
    }
    case TypeId::kFixedSizeList:
      length = layout_->fixed_size;
      start = at * length;  // check_structure() has seen that the child is so long
      break;
    default: throw_wrong_type("lists");
  }
  const std::int64_t there =
      batch_->nodes[static_cast<std::size_t>(layout_ - batch_->schema->nodes().data()) + 1].length;
  if (start < 0 || length < 0 || start > there || length > there - start) {
    throw_damaged(index, "it has elements that its child doesn't have");
  }
  return {start, length};
}

ElementPlace ColumnView::place(std::int64_t index) const {
  check_index(index);
  const std::int64_t at = offset_ + index;
  if (layout_->id == TypeId::kRunEndEncoded) {
    const ColumnView ends = child(0);
    const std::int64_t run =
        find_run(ends.id(), ends.buffer(1).data, ends.offset_, ends.offset_ + ends.length_, at + 1) - ends.offset_;
    if (run >= ends.length_ || run >= child(1).length_) throw_damaged(index, "no run has it");
    return {1, run};
  }
  if (layout_->id != TypeId::kSparseUnion && layout_->id != TypeId::kDenseUnion) throw_wrong_type("unions or runs");
  const auto code = load_once<std::int8_t>(static_cast<const std::byte*>(buffer(0).data) + at);
  const std::vector<std::int8_t>& codes = field().type.type_codes;
  const auto found = std::ranges::find(codes, code);
  if (found == codes.end()) throw_damaged(index, "its type id is that of no child");
  const auto which = static_cast<std::int32_t>(found - codes.begin());
  if (layout_->id == TypeId::kSparseUnion) return {which, index};
  const std::int64_t there = number_at(1, at, false);
  if (there < 0 || there >= child(static_cast<std::size_t>(which)).length_) {
    throw_damaged(index, "its offset is outside of its child");
  }
  return {which, there};
}

const RecordBatch& ColumnView::dictionary() const {
  if (!is_dictionary()) throw_wrong_type("a dictionary's indices");
  const auto& values = batch_->dictionaries[static_cast<std::size_t>(layout_->dictionary_slot)];
  if (!values) throw InvalidDataError(in_field(excerpt(field().name)) + " has no dictionary");
  return *values;
}

std::int64_t ColumnView::index_of_value(std::int64_t index, const ColumnView& values) const {
  if (!is_dictionary()) throw_wrong_type("a dictionary's indices");
  check_index(index);
  const std::int64_t value = load_integer(layout_->id, buffer(1).data, offset_ + index);
  if (value < 0 || value >= values.length_) throw_damaged(index, "its index is outside of the dictionary");
  return value;
}

void ColumnView::throw_out_of_range(std::int64_t index) const {
  throw InvalidArgumentError("element " + std::to_string(index) + " is out of range: the column has " +
                             std::to_string(length_));
}

void ColumnView::throw_wrong_type(const char* wanted) const {
  throw InvalidArgumentError(in_field(excerpt(field().name)) + " is of type " + type_name(field().type) +
                             ", and has not " + wanted);
}

void ColumnView::throw_damaged(std::int64_t index, const char* what) const {
  throw InvalidDataError(in_field(excerpt(field().name)) + ": element " + std::to_string(index) +
                         " is damaged: " + what);
}

}  // namespace crossdock::array
