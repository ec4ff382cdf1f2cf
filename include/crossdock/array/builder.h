#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crossdock/array/build_memory.h"
#include "crossdock/array/column_type.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"

/// Numbers of one type that are appended to a column of another.
namespace crossdock::detail {

using array::Int128;
__extension__ typedef unsigned __int128 UInt128;  // no column has it

/// An integer of 128 bits, which std::integral has in some modes of the compiler alone.
template <class I>
concept WideInteger = std::same_as<I, Int128> || std::same_as<I, UInt128>;

/// A number of another type than the number T, which may not have its value.
template <class N, class T>
concept OtherNumber = (std::is_arithmetic_v<N> || WideInteger<N>)&&(std::is_arithmetic_v<T> ||
                                                                    std::same_as<T, Int128>)&&!std::same_as<T, bool> &&
                      !std::same_as<N, T>;

/// One whose conversion to T loses most values: what comes after the point, or digits.
template <class N, class T>
concept LossyNumber = OtherNumber<N, T> && std::floating_point<N> &&(!std::floating_point<T> || sizeof(N) > sizeof(T));

/// Returns true if T has the value of a number of another type.
template <class T, OtherNumber<T> N>
constexpr bool has_value_of(N value) noexcept {
  if constexpr (std::floating_point<N>) {
    return true;  // T is wider
  } else if constexpr (std::floating_point<T>) {
    // Numbers that are within this limit, as all of 64 bits are, can be converted back.
    constexpr T kLimit = T{0x1p127F};
    const auto as_t = static_cast<T>(value);
    return as_t >= -kLimit && as_t < kLimit && static_cast<Int128>(as_t) == static_cast<Int128>(value);
  } else if constexpr (WideInteger<N>) {
    const auto as_t = static_cast<T>(value);
    return static_cast<N>(as_t) == value && (as_t < 0) == (value < 0);
  } else if constexpr (WideInteger<T>) {
    return true;
  } else {
    return std::in_range<T>(+value);
  }
}

/// Returns a number as text, for errors.
template <class I>
std::string number_text(I value) {
  if constexpr (WideInteger<I>) {
    if (!has_value_of<std::int64_t>(value)) return "a number of more than 64 bits";
    return std::to_string(static_cast<std::int64_t>(value));
  } else {
    return std::to_string(value);
  }
}

}  // namespace crossdock::detail

/// Record batches from values of C++. The types are those of ColumnType (column_type.h).
namespace crossdock::array {

/// A column that was built: the parts of a batch.
struct BuiltColumn {
  std::vector<Node> nodes;                ///< Its own, then those of its children, in preorder.
  std::vector<BufferView> buffers;        ///< Of these nodes, in their order.
  std::vector<RecordBatch> dictionaries;  ///< In the order of the schema's slots; their schemas are set later.
  std::vector<std::shared_ptr<const void>> owners;  ///< Keep the memory of the buffers, together.
};

/// An optional value of T: std::optional<T>, or an Element<T> of another column.
template <class O, class T>
concept OptionalOf = requires(const O& optional) {
  { optional.has_value() } -> std::same_as<bool>;
  { *optional } -> std::convertible_to<T>;
};

/// A range whose elements can be appended one by one.
template <class R>
concept ListElements = requires(const R& list) {
  list.begin() != list.end();
};

/// Returns an element as it lies in memory, of a type of fixed width.
template <ColumnElement T>
auto stored_element(const T& value) noexcept {
  if constexpr (PlainElement<T>) {
    return value;
  } else {
    return ColumnType<T>::store(value);
  }
}

/// What all builders of columns have. Use it on one thread at a time. Once its memory has run out (ResourceError,
/// ArenaFrozenError), a builder can only be destroyed.
class CROSSDOCK_EXPORT AnyColumnBuilder {
 public:
  AnyColumnBuilder(const AnyColumnBuilder&) = delete;
  AnyColumnBuilder& operator=(const AnyColumnBuilder&) = delete;
  virtual ~AnyColumnBuilder();

  /// The number of elements.
  std::int64_t size() const noexcept { return size_; }
  /// The number of nulls among them.
  std::int64_t null_count() const noexcept { return null_count_; }
  /// The field of the column in the schema, valid as long as the builder.
  const Field& field() const noexcept { return field_; }
  /// Makes room for elements beyond those that are there. Throws InvalidArgumentError (a negative number), and as all
  /// calls that append: ResourceError, ArenaFrozenError (an arena that was published).
  virtual void reserve(std::int64_t elements) = 0;
  /// Appends a null.
  virtual void append_null() = 0;
  /// Throws InvalidArgumentError if elements of lists were appended and aren't in a list yet: for BatchBuilder.
  virtual void check_lists() {}
  /// Adds the column to `*to`, and is empty afterwards: for BatchBuilder and for builders of lists.
  virtual void finish(BuiltColumn* to) = 0;

 protected:
  /// Makes an empty column. `arena`: null for the heap.
  AnyColumnBuilder(Field field, std::shared_ptr<device::Arena> arena);
  /// The arena that the column is built in; null for the heap.
  const std::shared_ptr<device::Arena>& arena() const noexcept { return arena_; }
  /// Counts an element whose value was appended.
  void count_valid() {
    if (null_count_ != 0) validity_.push(true);
    ++size_;
  }
  /// Counts elements whose values were appended, none of which is null.
  void count_valid(std::int64_t elements);
  /// Counts a null, whose value was appended.
  void count_null();
  /// Adds the node and the validity bitmap.
  void finish_node(BuiltColumn* to);
  /// Adds a buffer, which is empty afterwards.
  static void finish_buffer(GrowingBuffer* buffer, BuiltColumn* to);
  /// Throws ResourceError if a dictionary or the elements of lists become more than 2^31 - 1.
  static void check_count(std::int64_t elements);
  /// Returns a number of another type as T. Throws InvalidArgumentError if T doesn't have its value.
  template <class T, detail::OtherNumber<T> N>
  T converted(N value) const {
    if (!detail::has_value_of<T>(value)) throw_outside(detail::number_text(value));
    return static_cast<T>(value);
  }
  /// Adds a column of values as a dictionary: a batch of one column, without a schema.
  static void finish_dictionary(AnyColumnBuilder* values, BuiltColumn* to);

 private:
  [[noreturn]] void throw_outside(const std::string& number) const;

  Field field_;
  std::shared_ptr<device::Arena> arena_;
  GrowingBits validity_;  ///< Empty until the first null.
  std::int64_t size_ = 0;
  std::int64_t null_count_ = 0;
};

/// Builds a column of elements of fixed width.
///
/// Every builder, also of the other kinds of elements below, has append() for a value, for an optional value and for
/// std::nullopt, which is a null. BatchBuilder makes builders; a program that makes one by itself must give it a field
/// of the type that T is built as (field_of()).
template <ColumnElement T>
class ColumnBuilder final : public AnyColumnBuilder {
  using Stored = decltype(stored_element(std::declval<const T&>()));

 public:
  /// Makes an empty column. `arena`: null for the heap.
  ColumnBuilder(Field field, std::shared_ptr<device::Arena> arena)
      : AnyColumnBuilder(std::move(field), std::move(arena)), values_(this->arena()) {}

  /// Appends a value.
  void append(const T& value) {
    values_.push(stored_element(value));
    count_valid();
  }
  template <detail::LossyNumber<T> N>
  void append(N value) = delete;
  /// Appends a number of another type. Throws InvalidArgumentError if T doesn't have its value.
  template <detail::OtherNumber<T> N>
  void append(N value) {
    append(converted<T>(value));
  }
  /// Appends a value, or a null if there is none: of a std::optional, or of an Element of another column.
  template <OptionalOf<T> O>
  void append(const O& value) {
    value.has_value() ? append(*value) : append_null();
  }
  /// Appends a null.
  void append(std::nullopt_t) { append_null(); }
  /// Appends all of them, by one copy.
  void append(std::span<const T> values) requires PlainElement<T> {
    values_.append(values.data(), static_cast<std::int64_t>(values.size_bytes()));
    count_valid(static_cast<std::int64_t>(values.size()));
  }
  /// Appends all of them. A vector's memory becomes that of a column that is empty, without a copy, unless the column
  /// is built in an arena.
  void append(std::vector<T>&& values) requires PlainElement<T> {
    const auto count = static_cast<std::int64_t>(values.size());
    if (size() == 0 && count > 0) {
      auto owner = std::make_shared<std::vector<T>>(std::move(values));
      auto* const bytes = reinterpret_cast<std::byte*>(owner->data());
      values_.take(bytes, count * static_cast<std::int64_t>(sizeof(T)), std::move(owner));
    } else {
      values_.append(values.data(), count * static_cast<std::int64_t>(sizeof(T)));
    }
    count_valid(count);
  }
  /// Appends a null, whose value in memory is 0.
  void append_null() override {
    values_.push(Stored{});
    count_null();
  }
  void reserve(std::int64_t elements) override { values_.reserve(elements, sizeof(Stored)); }
  void finish(BuiltColumn* to) override {
    finish_node(to);
    finish_buffer(&values_, to);
  }

 private:
  GrowingBuffer values_;
};

/// Builds a column of bool, whose values are bits.
template <>
class CROSSDOCK_EXPORT ColumnBuilder<bool> final : public AnyColumnBuilder {
 public:
  ColumnBuilder(Field field, std::shared_ptr<device::Arena> arena)
      : AnyColumnBuilder(std::move(field), std::move(arena)), bits_(this->arena()) {}
  /// Takes bool alone: pointers and numbers would be converted.
  template <std::same_as<bool> B>
  void append(B value) {
    bits_.push(value);
    count_valid();
  }
  template <OptionalOf<bool> O>
  requires std::same_as < std::remove_cvref_t<decltype(*std::declval<const O&>())>,
  bool > void append(const O& value) { value.has_value() ? append(bool{*value}) : append_null(); }
  void append(std::nullopt_t) { append_null(); }
  /// Appends a null, whose bit is 0.
  void append_null() override;
  void reserve(std::int64_t elements) override { bits_.reserve(elements); }
  void finish(BuiltColumn* to) override;

 private:
  GrowingBits bits_;
};

/// Builds a column of texts or of binaries, of at most 2 GiB together.
class CROSSDOCK_EXPORT BytesBuilder : public AnyColumnBuilder {
 public:
  /// Makes an empty column. `arena`: null for the heap.
  BytesBuilder(Field field, std::shared_ptr<device::Arena> arena);
  /// Appends a null, which takes no bytes.
  void append_null() override;
  void reserve(std::int64_t elements) override;
  /// Makes room for more bytes of all elements together.
  void reserve_bytes(std::int64_t bytes) { bytes_.reserve(bytes); }
  void finish(BuiltColumn* to) override;

 protected:
  /// Throws ResourceError if all elements have more than 2 GiB together.
  void append_bytes(const void* bytes, std::size_t size);

 private:
  GrowingBuffer offsets_;
  GrowingBuffer bytes_;
};

/// Builds a column of texts, of at most 2 GiB together. They must be UTF-8: append() doesn't check it, check_full()
/// does.
template <>
class CROSSDOCK_EXPORT ColumnBuilder<std::string_view> final : public BytesBuilder {
 public:
  using BytesBuilder::BytesBuilder;
  void append(std::string_view value) { append_bytes(value.data(), value.size()); }
  template <OptionalOf<std::string_view> O>
  void append(const O& value) {
    value.has_value() ? append(std::string_view(*value)) : append_null();
  }
  void append(std::nullopt_t) { append_null(); }
  void append(std::nullptr_t) = delete;  // append_null()
};

/// Builds a column of binaries, of at most 2 GiB together.
template <>
class CROSSDOCK_EXPORT ColumnBuilder<std::span<const std::byte>> final : public BytesBuilder {
 public:
  using BytesBuilder::BytesBuilder;
  void append(std::span<const std::byte> value) { append_bytes(value.data(), value.size()); }
  template <OptionalOf<std::span<const std::byte>> O>
  void append(const O& value) {
    value.has_value() ? append(std::span<const std::byte>(*value)) : append_null();
  }
  void append(std::nullopt_t) { append_null(); }
};

/// The offsets of a column of lists.
class CROSSDOCK_EXPORT ListBuilder : public AnyColumnBuilder {
 public:
  /// Makes an empty column. `arena`: null for the heap.
  ListBuilder(Field field, std::shared_ptr<device::Arena> arena);
  /// Appends a null. Elements that were appended since the last list become its own, where nobody sees them. Throws as
  /// append_list().
  void append_null() override;
  void reserve(std::int64_t elements) override;
  /// Ends a list: its elements are those of elements() that were appended since the last one.
  /// Throws ResourceError for more than 2^31 - 1 elements of all lists.
  void append_list();
  void check_lists() override;
  void finish(BuiltColumn* to) override;

 protected:
  /// Returns the builder of the elements of all lists.
  virtual AnyColumnBuilder& content() noexcept = 0;

 private:
  void push_end();
  GrowingBuffer offsets_;
  std::int64_t end_ = 0;  ///< The number of elements of all lists.
};

/// Builds a column of lists: append(list), or the elements one by one, and append_list() after those of each list.
template <ColumnElement T>
class ColumnBuilder<ListOf<T>> final : public ListBuilder {
 public:
  /// Makes an empty column; `field` has one child, the elements' field. `arena`: null for the heap.
  ColumnBuilder(Field field, std::shared_ptr<device::Arena> arena)
      : ListBuilder(std::move(field), std::move(arena)), elements_(this->field().children.front(), this->arena()) {}
  /// Appends a list: any range of what append() of ColumnBuilder<T> takes. If the range throws, the elements before
  /// stay in elements(): append_null() makes a null of them, anything else makes them the beginning of the next list.
  template <ListElements R>
  void append(const R& list) {
    for (const auto& element : list) elements_.append(element);
    append_list();
  }
  /// Appends a list, or a null if there is none: of a std::optional, or of an Element of another column.
  template <class O>
  requires ListElements<std::remove_cvref_t<decltype(*std::declval<const O&>())>>
  void append(const O& list) { list.has_value() ? append(*list) : append_null(); }
  void append(std::nullopt_t) { append_null(); }
  /// Returns the builder of the elements of all lists, for append_list(); it is part of this one.
  ColumnBuilder<T>& elements() noexcept { return elements_; }

 private:
  AnyColumnBuilder& content() noexcept override { return elements_; }
  ColumnBuilder<T> elements_;
};

/// The indices of the values of a dictionary that is being built. A value is a text, or a number of up to 64 bits. Use
/// it on one thread at a time.
class CROSSDOCK_EXPORT DictionaryIndex {
 public:
  /// Makes an index of nothing.
  DictionaryIndex();
  ~DictionaryIndex();
  /// Returns the index of a text; -1 if it wasn't added.
  std::int32_t find(std::string_view text) const noexcept;
  /// Returns the index of a number; -1 if it wasn't added.
  std::int32_t find(std::uint64_t number) const noexcept;
  /// Adds a text, which is copied, and wasn't added before.
  void add(std::string_view text, std::int32_t index);
  /// Adds a number, which wasn't added before.
  void add(std::uint64_t number, std::int32_t index);
  /// Removes all of them.
  void clear() noexcept;

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

/// Builds a dictionary-encoded column: each value is stored once, in the order in which it first came. Floats are one
/// value if their bits are.
template <ColumnElement T>
class ColumnBuilder<Dictionary<T>> final : public AnyColumnBuilder {
  static_assert(std::same_as<T, std::string_view> ||
                    (std::is_arithmetic_v<T> && !std::same_as<T, bool> && sizeof(T) <= 8),
                "dictionaries are built of texts and numbers");

 public:
  /// Makes an empty column; `field` has the field of the values. `arena`: null for the heap.
  ColumnBuilder(Field field, std::shared_ptr<device::Arena> arena)
      : AnyColumnBuilder(std::move(field), std::move(arena)),
        indices_(this->arena()),
        values_(*this->field().dictionary, this->arena()) {}
  /// Appends a value, which is stored if it is new since the last finish(). Throws ResourceError for more than 2^31 - 1
  /// different values.
  void append(const T& value) {
    const auto key = key_of(value);
    std::int32_t index = known_.find(key);
    if (index < 0) {
      check_count(values_.size() + 1);
      index = static_cast<std::int32_t>(values_.size());
      values_.append(value);  // before it is known: this throws if the texts are too many
      known_.add(key, index);
    }
    indices_.push(index);
    count_valid();
  }
  template <OptionalOf<T> O>
  void append(const O& value) {
    value.has_value() ? append(*value) : append_null();
  }
  void append(std::nullptr_t) = delete;  // append_null()
  template <detail::LossyNumber<T> N>
  void append(N value) = delete;
  /// Appends a number of another type. Throws InvalidArgumentError if T doesn't have its value.
  template <detail::OtherNumber<T> N>
  void append(N value) {
    append(converted<T>(value));
  }
  void append(std::nullopt_t) { append_null(); }
  /// Appends a null, which stores no value.
  void append_null() override {
    indices_.push(std::int32_t{0});
    count_null();
  }
  void reserve(std::int64_t elements) override { indices_.reserve(elements, sizeof(std::int32_t)); }
  void finish(BuiltColumn* to) override {
    finish_node(to);
    finish_buffer(&indices_, to);
    finish_dictionary(&values_, to);
    known_.clear();
  }

 private:
  /// Returns what a value is found by. Of a float it is the bits: NaN isn't equal to itself, and -0.0 equals 0.0.
  static auto key_of(const T& value) noexcept {
    if constexpr (std::same_as<T, std::string_view>) {
      return value;
    } else if constexpr (std::same_as<T, float>) {
      return std::uint64_t{std::bit_cast<std::uint32_t>(value)};
    } else if constexpr (std::same_as<T, double>) {
      return std::bit_cast<std::uint64_t>(value);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }

  GrowingBuffer indices_;
  ColumnBuilder<T> values_;
  DictionaryIndex known_;
};

/// Builds record batches of one schema, one after the other:
///
///     BatchBuilder weather;
///     auto& station = weather.add<std::string_view>("station");
///     weather.add("celsius", std::vector{11.5, 12.0});  // a vector that is moved in isn't copied
///     station.append("JFK");
///     station.append("LGA");
///     RecordBatch batch = weather.finish();
///
/// With an arena of the runtime (session::Runtime::make_arena()) the batches lie in it: publishing them copies nothing.
/// Use it on one thread at a time.
class CROSSDOCK_EXPORT BatchBuilder {
 public:
  /// Makes a builder without columns. `arena`: null for the heap. An arena that is published ends what can be built in
  /// it: ArenaFrozenError from then on.
  explicit BatchBuilder(std::shared_ptr<device::Arena> arena = nullptr);
  ~BatchBuilder();
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  /// Adds a column, and returns its builder, which lives as long as this one. Throws InvalidArgumentError after the
  /// first finish(), when the schema is known.
  template <ColumnElement T>
  ColumnBuilder<T>& add(std::string name) {
    return add<T>(std::move(name), ColumnType<T>::type());
  }
  /// Adds a column of a type with other parameters than ColumnType<T>::type(): a decimal's precision and scale, a
  /// timestamp's time zone. Throws InvalidArgumentError if it isn't read as T, or is laid out in another way.
  template <ColumnElement T>
  ColumnBuilder<T>& add(std::string name, Type type) {
    Field field = field_of<T>(std::move(name));
    check_type(field, type, ColumnType<T>::matches(type));
    field.type = std::move(type);
    auto builder = std::make_unique<ColumnBuilder<T>>(std::move(field), arena_);
    ColumnBuilder<T>& result = *builder;
    take(std::move(builder));
    return result;
  }
  /// Adds a column with values. A vector that is moved in isn't copied, unless the column is built in an arena.
  template <PlainElement T>
  ColumnBuilder<T>& add(std::string name, std::vector<T> values) {
    ColumnBuilder<T>& builder = add<T>(std::move(name));
    builder.append(std::move(values));
    return builder;
  }
  /// Adds a column with the values of a range, of what ColumnBuilder<T>::append() takes. If append() throws, as for an
  /// integer outside of T's range, the column is there, with the values before.
  template <ColumnElement T, ListElements Range>
  ColumnBuilder<T>& add(std::string name,
                        const Range& values) requires(!PlainElement<T> || !std::same_as<Range, std::vector<T>>) {
    ColumnBuilder<T>& builder = add<T>(std::move(name));
    for (const auto& value : values) builder.append(value);
    return builder;
  }
  /// Makes room for rows in all columns. Throws as AnyColumnBuilder::reserve().
  void reserve(std::int64_t rows);

  /// Returns a batch of what was appended; the columns are empty afterwards. Throws InvalidArgumentError, which names
  /// the columns, if they aren't of one length, or a list wasn't ended; then nothing has changed. Throws
  /// InvalidDataError as Schema does.
  RecordBatch finish();
  /// The schema of the batches; the columns are known from the first call on.
  const std::shared_ptr<const Schema>& schema();

 private:
  static void check_type(const Field& field, const Type& type, bool matches);
  void take(std::unique_ptr<AnyColumnBuilder> builder);

  std::shared_ptr<device::Arena> arena_;
  std::vector<std::unique_ptr<AnyColumnBuilder>> columns_;
  std::shared_ptr<const Schema> schema_;
};

}  // namespace crossdock::array
