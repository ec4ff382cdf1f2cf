#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// Some consecutive elements of a child: the content of one list.
struct ElementRange {
  std::int64_t start = 0;   ///< Index of the first one in the child.
  std::int64_t length = 0;  ///< Number of elements; 0 for an empty list.
};

/// The place of one element in a child: of a union, or of a run.
struct ElementPlace {
  std::int32_t child = 0;  ///< Index of the child.
  std::int64_t index = 0;  ///< Element of that child.
};

/// Reads single elements of a column of a batch, or of a child of one, on the host.
///
/// A view: the batch must live, and must not change, as long as it. Cheap to make and to copy; allocates nothing. Any
/// number of threads may use one.
///
/// The memory may be another process's, and need not have passed check_full(). So what leads to other memory (offsets,
/// sizes, views, dictionaries' indices, type ids, run ends) is read once and checked before it is followed: every
/// accessor throws InvalidDataError for an element that points out of its buffers, and InvalidArgumentError for an
/// index that isn't below length(). Text isn't checked for UTF-8. Each accessor is for some types and throws
/// InvalidArgumentError for others. An accessor of a null element returns what the memory holds.
class CROSSDOCK_EXPORT ColumnView {
 public:
  /// Throws InvalidArgumentError for an index that no column has, for counts that don't fit the schema, and if the
  /// batch isn't host_readable(): then copy it to the host, or wait for it.
  ColumnView(const RecordBatch& batch, std::size_t column);
  ColumnView(const RecordBatch&& batch, std::size_t column) = delete;  // the batch must live

  /// The field of the column, valid as long as the batch's schema.
  const Field& field() const noexcept { return *layout_->field; }
  /// The type of the column; of a dictionary-encoded one, of its indices.
  TypeId id() const noexcept { return layout_->id; }
  /// True if the elements are indices of values().
  bool is_dictionary() const noexcept { return layout_->dictionary_slot >= 0; }
  /// The number of elements.
  std::int64_t length() const noexcept { return length_; }
  /// The buffers of the column's own node, of a view type also its variadic ones. Element 0 is at offset() in them.
  std::span<const BufferView> buffers() const noexcept;
  /// Returns buffers()[which]. Undefined if there are fewer.
  const BufferView& buffer(std::size_t which) const noexcept { return batch_->buffers[first_buffer_ + which]; }
  /// The place of element 0 in the buffers, counted in elements: above 0 for a slice.
  std::int64_t offset() const noexcept { return offset_; }
  /// Whether the type has a validity bitmap, which is the first buffer then, and may be absent.
  bool has_validity() const noexcept { return layout_->type.has_validity(); }
  /// The bytes of an element of a type of fixed width; else 0.
  std::int32_t width() const noexcept { return layout_->type.width; }
  /// The address of element 0 of a type of fixed width; null if there are no elements.
  const std::byte* first_element() const noexcept {
    if (length_ == 0) return nullptr;
    return static_cast<const std::byte*>(buffer(layout_->type.n_buffers - std::size_t{1}).data) + offset_ * width();
  }
  /// Throws InvalidArgumentError for an index that isn't below length().
  void check_index(std::int64_t index) const {
    if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(length_)) [[unlikely]]
      throw_out_of_range(index);
  }
  /// Returns the elements from `start` on. Throws InvalidArgumentError if they aren't all there.
  ColumnView slice(std::int64_t start, std::int64_t length) const;

  /// Returns false for an element that is null by the column's own validity. The null type has nulls alone. Unions and
  /// run-end encoded columns have none of their own.
  bool is_valid(std::int64_t index) const {
    check_index(index);
    if (!layout_->type.has_validity()) return layout_->id != TypeId::kNull;
    const void* const bits = buffer(0).data;
    return bits == nullptr || bit(bits, offset_ + index);
  }
  /// Counts the elements for which is_valid() is false. Takes the node's count where that is of the same elements.
  std::int64_t null_count() const;

  /// Returns a number, date, time or index: of a type of sizeof(T) bytes.
  template <class T>
  T value(std::int64_t index) const {
    T result;
    std::memcpy(&result, fixed(index, sizeof(T)), sizeof(T));
    return result;
  }
  /// Returns an element of a column of kBool.
  bool boolean(std::int64_t index) const;
  /// The bytes of a text or binary element of any kind, of a decimal, or of another type of fixed width.
  std::string_view bytes(std::int64_t index) const;

  /// The number of children: of a map one, its entries; of a dictionary-encoded column none.
  std::size_t n_children() const noexcept { return static_cast<std::size_t>(layout_->n_children); }
  /// Returns a child. That of a struct or a sparse union has the parent's elements; other children have their own, in
  /// which elements() and place() count.
  ColumnView child(std::size_t index) const;
  /// The elements of a list of any kind, or the entries of a map, in child(0).
  ElementRange elements(std::int64_t index) const;
  /// Where the value of an element of a union or a run-end encoded column is. For the latter the child is 1.
  ElementPlace place(std::int64_t index) const;
  /// The values of a dictionary-encoded column, a batch of one column. Throws InvalidDataError if the batch has none.
  const RecordBatch& dictionary() const;
  /// The same as a view, in which index_of_value() counts.
  ColumnView values() const { return ColumnView(dictionary(), 0); }
  /// Returns the index in values() of an element of a dictionary-encoded column. Throws InvalidDataError for an index
  /// that values() don't have.
  std::int64_t index_of_value(std::int64_t index) const { return index_of_value(index, values()); }
  /// The same for a caller that keeps values().
  std::int64_t index_of_value(std::int64_t index, const ColumnView& values) const;
  /// Whether the batch has the values of a dictionary-encoded column: it may have none if all elements are null.
  bool has_dictionary() const noexcept {
    return is_dictionary() && batch_->dictionaries[static_cast<std::size_t>(layout_->dictionary_slot)] != nullptr;
  }

 private:
  ColumnView() = default;
  static ColumnView at_node(const RecordBatch& batch, std::size_t node);
  static bool bit(const void* bits, std::int64_t at) noexcept {
    return (static_cast<const unsigned char*>(bits)[at / 8] >> (at % 8) & 1U) != 0;
  }
  /// Checks the width, and returns where the element is in the column's one buffer of elements.
  const std::byte* fixed(std::int64_t index, std::size_t width) const {
    check_index(index);
    if (layout_->type.width != static_cast<std::int32_t>(width)) [[unlikely]]
      throw_wrong_type("elements of another size");
    return static_cast<const std::byte*>(buffer(layout_->type.n_buffers - std::size_t{1}).data) +
           (offset_ + index) * static_cast<std::int64_t>(width);
  }
  std::string_view viewed(std::int64_t at) const;
  std::int64_t number_at(std::size_t which, std::int64_t at, bool wide) const;
  [[noreturn]] void throw_out_of_range(std::int64_t index) const;
  [[noreturn]] void throw_wrong_type(const char* wanted) const;
  [[noreturn]] void throw_damaged(std::int64_t index, const char* what) const;

  const RecordBatch* batch_ = nullptr;
  const LayoutNode* layout_ = nullptr;
  std::size_t first_buffer_ = 0;
  std::size_t n_variadic_ = 0;
  std::int64_t offset_ = 0;  ///< Of element 0 in the buffers.
  std::int64_t length_ = 0;
};

}  // namespace crossdock::array
