#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "crossdock/array/column_type.h"
#include "crossdock/array/column_view.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// An element of a column: a value, or null. Its accessors are those of std::optional, into which it can be converted.
/// Of a temporary, `*` returns the value itself, not a reference to what is gone with the temporary.
template <class V>
class Element {
 public:
  using value_type = V;  ///< The type of an element that isn't null.
  /// Makes a null.
  constexpr Element() noexcept = default;
  /// Makes an element with a value. Implicit, as that of std::optional.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Element(V value) : value_(std::move(value)) {}

  /// Returns false for a null.
  constexpr bool has_value() const noexcept { return value_.has_value(); }
  /// Returns false for a null, and true for a value, which may be 0. An element of bool has no such conversion: one
  /// could take it for the value, as std::optional<bool> would.
  constexpr explicit operator bool() const noexcept requires(!std::same_as<V, bool>) { return value_.has_value(); }
  /// Returns the value. Undefined for a null.
  constexpr const V& operator*() const& noexcept { return *value_; }
  /// Returns the value itself, of a temporary. Undefined for a null.
  constexpr V operator*() && noexcept { return *std::move(value_); }
  /// Accesses a member of the value. Undefined for a null.
  constexpr const V* operator->() const noexcept { return &*value_; }
  /// Returns the value. Throws std::bad_optional_access, which is no crossdock::Error, for a null.
  constexpr const V& value() const& { return value_.value(); }
  /// Returns the value itself, of a temporary. Throws as above.
  constexpr V value() && { return std::move(value_).value(); }
  /// Returns the value, or `otherwise` for a null.
  constexpr V value_or(V otherwise) const { return value_ ? *value_ : otherwise; }
  /// Converts to an optional value, which is std::nullopt for a null.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator std::optional<V>() const { return value_; }

  /// Compares as std::optional does: two nulls are equal.
  friend constexpr bool operator==(const Element& a, const Element& b) requires std::equality_comparable<V> {
    return a.value_ == b.value_;
  }
  /// Returns true for an element of this value; a null equals no value.
  friend constexpr bool operator==(const Element& a, const V& b) requires std::equality_comparable<V> {
    return a.value_ == b;
  }
  /// Returns true for a null.
  friend constexpr bool operator==(const Element& a, std::nullopt_t) noexcept { return !a.value_; }

 private:
  std::optional<V> value_;
};

/// Throws InvalidDataError unless the column's buffers hold as many elements as its length says, at addresses that are
/// a multiple of `alignment`. Received, imported and built batches pass this.
CROSSDOCK_EXPORT void check_elements(const ColumnView& column, std::size_t alignment);

/// Throws InvalidArgumentError, which names the column, its type, the type that was asked for and, if there is one, the
/// type of C++ that reads it.
[[noreturn]] CROSSDOCK_EXPORT void throw_wrong_column_type(const Field& field, const Field& asked);

template <ColumnElement T>
class Column;

/// Reads the elements of a column as T: the part of Column<T> that depends on T. It checks no index.
///
/// Every reader has `Value`, `skip()` and `at()`. That of a list has the `elements()` of all lists, and that of a
/// dictionary-encoded column the `dictionary()` and an `element()`, since a value of it may be null, too.
template <class T>
class ElementReader {
 public:
  using Value = T;  ///< What an element that isn't null is read as.
  /// Makes a reader of a column whose type and buffers were checked.
  explicit ElementReader(const ColumnView& view) noexcept : values_(reinterpret_cast<const T*>(view.first_element())) {}
  /// Makes the element at `count` the first one, for a slice.
  void skip(std::int64_t count) noexcept { values_ += count; }
  /// Returns what the memory holds for an element, null or not. `view` is the column, after the same slices.
  T at(const ColumnView& /*view*/, std::int64_t index) const noexcept { return values_[index]; }
  /// The first element's place. Null if there are no elements.
  const T* values() const noexcept { return values_; }

 private:
  const T* values_;
};

template <>
class ElementReader<bool> {
 public:
  using Value = bool;
  explicit ElementReader(const ColumnView& view)
      : bits_(static_cast<const unsigned char*>(view.buffer(1).data)), first_(view.offset()) {}
  void skip(std::int64_t count) noexcept { first_ += count; }
  bool at(const ColumnView& /*view*/, std::int64_t index) const noexcept {
    const std::int64_t bit = first_ + index;
    return (bits_[bit / 8] >> (bit % 8) & 1U) != 0;
  }

 private:
  const unsigned char* bits_;
  std::int64_t first_;
};

/// Numbers whose width isn't that of T: each is read, and converted.
template <class T>
class ConvertingReader {
 public:
  using Value = T;  ///< What an element that isn't null is read as.
  /// Makes a reader of a column whose type and buffers were checked.
  explicit ConvertingReader(const ColumnView& view) noexcept
      : width_(view.width()), values_(view.first_element()), id_(view.id()) {}
  /// Makes the element at `count` the first one, for a slice.
  void skip(std::int64_t count) noexcept { values_ += count * width_; }

 protected:
  /// Returns an element as a number of type S, whose size must be the column's width. It may lie at any address.
  template <class S>
  S stored(std::int64_t index) const noexcept {
    S number;
    std::memcpy(&number, values_ + index * width_, sizeof number);
    return number;
  }
  /// The type of the column, where several are read as T.
  TypeId id() const noexcept { return id_; }

 private:
  std::int64_t width_;
  const std::byte* values_;
  TypeId id_;
};

template <>
class ElementReader<std::chrono::sys_days> : public ConvertingReader<std::chrono::sys_days> {
 public:
  using ConvertingReader::ConvertingReader;
  std::chrono::sys_days at(const ColumnView& /*view*/, std::int64_t index) const noexcept {
    if (id() == TypeId::kDate32) return std::chrono::sys_days(std::chrono::days(stored<std::int32_t>(index)));
    // A date64 that is no whole number of days is a time of its day, before 1970, too.
    constexpr std::int64_t kDay = 24 * 60 * 60 * 1000;
    const auto time = stored<std::int64_t>(index);
    return std::chrono::sys_days(std::chrono::days(time / kDay - (time % kDay < 0 ? 1 : 0)));
  }
};

template <ArrowDuration D>
class ElementReader<TimeOfDay<D>> : public ConvertingReader<TimeOfDay<D>> {
 public:
  using ConvertingReader<TimeOfDay<D>>::ConvertingReader;
  TimeOfDay<D> at(const ColumnView& /*view*/, std::int64_t index) const noexcept {
    return {D(this->template stored<typename ColumnType<TimeOfDay<D>>::Stored>(index))};
  }
};

template <>
class ElementReader<Int128> : public ConvertingReader<Int128> {
 public:
  using ConvertingReader::ConvertingReader;
  Int128 at(const ColumnView& /*view*/, std::int64_t index) const noexcept {
    if (id() == TypeId::kDecimal32) return stored<std::int32_t>(index);
    if (id() == TypeId::kDecimal64) return stored<std::int64_t>(index);
    return stored<Int128>(index);
  }
};

template <>
class ElementReader<std::string_view> {
 public:
  using Value = std::string_view;
  explicit ElementReader(const ColumnView& /*view*/) noexcept {}
  void skip(std::int64_t /*count*/) noexcept {}
  std::string_view at(const ColumnView& view, std::int64_t index) const { return view.bytes(index); }
};

template <>
class ElementReader<std::span<const std::byte>> {
 public:
  using Value = std::span<const std::byte>;
  explicit ElementReader(const ColumnView& /*view*/) noexcept {}
  void skip(std::int64_t /*count*/) noexcept {}
  std::span<const std::byte> at(const ColumnView& view, std::int64_t index) const {
    const std::string_view bytes = view.bytes(index);
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  }
};

template <class T>
class ElementReader<ListOf<T>> {
 public:
  using Value = Column<T>;
  explicit ElementReader(const ColumnView& view) : elements_(view.child(0)) {}
  void skip(std::int64_t /*count*/) noexcept {}
  Column<T> at(const ColumnView& view, std::int64_t index) const {
    const ElementRange range = view.elements(index);
    return elements_.slice(range.start, range.length);
  }
  const Column<T>& elements() const noexcept { return elements_; }

 private:
  Column<T> elements_;
};

template <class T>
class ElementReader<Dictionary<T>> {
 public:
  using Value = typename ElementReader<T>::Value;
  explicit ElementReader(const ColumnView& view) {
    if (view.has_dictionary()) values_.emplace(view.values());
  }
  void skip(std::int64_t /*count*/) noexcept {}
  Value at(const ColumnView& view, std::int64_t index) const {
    return dictionary(view).value(view.index_of_value(index, values_->view()));
  }
  Element<Value> element(const ColumnView& view, std::int64_t index) const {
    return dictionary(view)[view.index_of_value(index, values_->view())];
  }
  const Column<T>& dictionary(const ColumnView& view) const {
    if (!values_) [[unlikely]]
      static_cast<void>(view.dictionary());  // throws: there is none
    return *values_;
  }

 private:
  std::optional<Column<T>> values_;  ///< A column whose elements are all null need not have a dictionary.
};

/// The elements of a column of a batch on the host, as values of C++: RecordBatch::column(). The types are those of
/// ColumnType (column_type.h). A range: random access, sized, cheap to copy.
///
/// A view: the batch must live, must not be moved, and must not change, as long as it, its iterators, and the texts and
/// lists that it returns. Any number of threads may use one.
///
/// The type and the sizes of the buffers are checked once, when it is made. What leads to other memory (offsets, views,
/// indices) is read once and checked at each access, as of ColumnView, because the memory may be another process's:
/// InvalidDataError for an element that points out of its buffers. Text isn't checked for UTF-8.
template <ColumnElement T>
class Column {
 public:
  using Value = typename ElementReader<T>::Value;  ///< T; a Column of lists; a dictionary's values.
  using value_type = Element<Value>;               ///< What the range has: values and nulls.
  /// True for T = Dictionary<...>: there are dictionary() and index().
  static constexpr bool kIsDictionary = requires(const ElementReader<T>& reader, const ColumnView& view) {
    reader.dictionary(view);
  };
  /// True for T = ListOf<...>: there is elements().
  static constexpr bool kIsList = requires(const ElementReader<T>& reader) { reader.elements(); };

  /// Throws InvalidArgumentError (the column is of another type: the message says which type reads it),
  /// InvalidDataError (buffers that are too small or not aligned).
  explicit Column(const ColumnView& view) : view_(checked(view)), reader_(view_) {
    if (view_.has_validity()) {
      validity_ = static_cast<const unsigned char*>(view_.buffer(0).data);
      first_bit_ = view_.offset();
    }
  }

  /// The number of elements.
  std::int64_t size() const noexcept { return view_.length(); }
  /// Returns true if there are no elements.
  bool empty() const noexcept { return view_.length() == 0; }
  /// The field of the column, valid as long as the batch's schema.
  const Field& field() const noexcept { return view_.field(); }
  /// The column without its type, for what isn't here.
  const ColumnView& view() const noexcept { return view_; }
  /// Returns the number of nulls. Counts them in the bitmap if the batch doesn't say, or for a slice. Nulls of a
  /// dictionary's values aren't among them.
  std::int64_t null_count() const { return view_.null_count(); }

  /// Returns false for an element that is null by the column's own validity. As all accessors, throws
  /// InvalidArgumentError for an index that isn't below size().
  bool is_valid(std::int64_t index) const {
    view_.check_index(index);
    return valid(index);
  }
  /// Returns an element. It is a null, too, where the value in the dictionary is one. Throws as is_valid(), and
  /// InvalidDataError as the class says.
  Element<Value> operator[](std::int64_t index) const {
    view_.check_index(index);
    return element(index);
  }
  /// Returns what the memory holds, whether the element is null or not. Throws as operator[].
  Value value(std::int64_t index) const {
    view_.check_index(index);
    return reader_.at(view_, index);
  }

  /// All values, also those of elements that are null: they are what the memory holds.
  std::span<const T> values() const noexcept requires PlainElement<T> {
    return {reader_.values(), static_cast<std::size_t>(size())};
  }
  /// Of a dictionary-encoded column: the values that the elements are indices of. Throws InvalidDataError if the batch
  /// has none, as it may be where all elements are null.
  const auto& dictionary() const& requires kIsDictionary { return reader_.dictionary(view_); }
  /// Returns the values themselves, of a temporary. Throws as above.
  auto dictionary() && requires kIsDictionary { return reader_.dictionary(view_); }
  /// Of a dictionary-encoded column: the index of an element in dictionary().
  std::int64_t index(std::int64_t element) const requires kIsDictionary {
    return view_.index_of_value(element, dictionary().view());
  }
  /// Of lists: the elements of all of them; element i of this column has view().elements(i) of these.
  const auto& elements() const& noexcept requires kIsList { return reader_.elements(); }
  /// Returns the elements themselves, of a temporary.
  auto elements() && noexcept requires kIsList { return reader_.elements(); }

  /// Returns the elements from `start` on. Throws InvalidArgumentError if they aren't all there.
  Column slice(std::int64_t start, std::int64_t length) const {
    Column part = *this;
    part.view_ = view_.slice(start, length);
    part.first_bit_ += start;
    part.reader_.skip(start);
    return part;
  }

  class Iterator;
  /// An iterator at the first element. It refers to this object, not to a copy of it.
  Iterator begin() const& noexcept { return {this, 0}; }
  /// An iterator behind the last element.
  Iterator end() const& noexcept { return {this, size()}; }
  Iterator begin() const&& = delete;
  Iterator end() const&& = delete;

 private:
  static const ColumnView& checked(const ColumnView& view);
  bool valid(std::int64_t index) const noexcept {
    const std::int64_t bit = first_bit_ + index;
    return validity_ == nullptr || (validity_[bit / 8] >> (bit % 8) & 1U) != 0;
  }
  Element<Value> element(std::int64_t index) const {
    if (!valid(index)) return {};
    if constexpr (kIsDictionary) {
      return reader_.element(view_, index);  // the value may be null, too
    } else {
      return reader_.at(view_, index);
    }
  }

  ColumnView view_;
  const unsigned char* validity_ = nullptr;
  std::int64_t first_bit_ = 0;
  ElementReader<T> reader_;
};

/// A random-access iterator of a column, valid as long as the Column that made it. An element is read each time it is
/// dereferenced. Nothing checks that an iterator stays between begin() and end().
template <ColumnElement T>
class Column<T>::Iterator {
 public:
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;  // `*` returns no reference
  using value_type = Element<Value>;
  using reference = value_type;
  using difference_type = std::ptrdiff_t;

  Iterator() noexcept = default;
  /// Makes an iterator at an element. `column` must live as long as it.
  Iterator(const Column* column, std::int64_t index) noexcept : column_(column), index_(index) {}

  /// Reads the element. Throws InvalidDataError as Column::operator[].
  value_type operator*() const { return column_->element(index_); }
  /// Reads the element `n` further on. Throws likewise.
  value_type operator[](difference_type n) const { return column_->element(index_ + n); }
  Iterator& operator++() noexcept { return *this += 1; }
  Iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
  Iterator& operator--() noexcept { return *this -= 1; }
  Iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }
  Iterator& operator+=(difference_type n) noexcept {
    index_ += n;
    return *this;
  }
  Iterator& operator-=(difference_type n) noexcept { return *this += -n; }
  friend Iterator operator+(Iterator from, difference_type n) noexcept { return from += n; }
  friend Iterator operator+(difference_type n, Iterator from) noexcept { return from += n; }
  friend Iterator operator-(Iterator from, difference_type n) noexcept { return from -= n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) noexcept { return a.index_ - b.index_; }
  friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.index_ == b.index_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) noexcept { return a.index_ <=> b.index_; }

 private:
  const Column* column_ = nullptr;
  std::int64_t index_ = 0;
};

/// Says whether T reads columns of a field, with what is nested in it.
template <ColumnElement T>
struct ReadsField {
  /// Returns true if it does.
  static bool test(const Field& field) { return field.dictionary == nullptr && ColumnType<T>::matches(field.type); }
};
template <class T>
struct ReadsField<ListOf<T>> {
  static bool test(const Field& field) {
    return field.dictionary == nullptr && ColumnType<ListOf<T>>::matches(field.type) &&
           ReadsField<T>::test(field.children.front());
  }
};
template <class T>
struct ReadsField<Dictionary<T>> {
  static bool test(const Field& field) { return field.dictionary != nullptr && ReadsField<T>::test(*field.dictionary); }
};

template <ColumnElement T>
const ColumnView& Column<T>::checked(const ColumnView& view) {
  if (!ReadsField<T>::test(view.field())) throw_wrong_column_type(view.field(), field_of<T>(""));
  std::size_t alignment = 1;
  if constexpr (PlainElement<T>) alignment = alignof(T);
  check_elements(view, alignment);
  return view;
}

template <class T>
auto RecordBatch::column(std::size_t index) const& {
  return Column<T>(ColumnView(*this, index));
}

template <class T>
auto RecordBatch::column(std::string_view name) const& {
  return column<T>(schema->index_of(name));
}

}  // namespace crossdock::array

/// A column is a view as those of std::ranges are.
template <crossdock::array::ColumnElement T>
inline constexpr bool std::ranges::enable_view<crossdock::array::Column<T>> = true;
