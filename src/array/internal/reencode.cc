#include "array/internal/reencode.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "array/convert.h"
#include "array/internal/bits.h"
#include "array/internal/check_structure.h"
#include "array/internal/copies.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "array/view_layout.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

// ---- reading ----

/// Distance of the buffers that bytes are cut into for views, whose offsets have 31 bits.
constexpr std::int64_t kPiece = std::int64_t{1} << 31;

constexpr char kWrongOffsets[] = "its offsets aren't in order, or lead out of its data";

/// An element of a flat type. A null has no bytes.
struct Value {
  bool is_valid = false;
  const std::byte* data = nullptr;
  std::int64_t size = 0;
  std::int64_t piece = 0;  ///< Which of Source::pieces() it begins in, if it is longer than kMaxInline.

  std::string_view text() const noexcept { return as_text({data, static_cast<std::size_t>(size)}); }
};

bool has_offsets(const LayoutNode& layout) noexcept {
  const BufferKind second = layout.type.buffers[1];
  return layout.dictionary_slot < 0 && (second == BufferKind::kOffsets32 || second == BufferKind::kOffsets64);
}

/// A node of a batch in normal form. Another process may write to its memory: each number is read once, and checked
/// before it is used.
class Source {
 public:
  Source(const RecordBatch& batch, std::size_t index, const BufferCursor& at)
      : layout(batch.schema->nodes()[index]),
        node(batch.nodes[index]),
        buffers(std::span(batch.buffers).subspan(at.first(), at.end() - at.first())),
        batch_(batch),
        index_(index) {
    if (layout.dictionary_slot < 0) return;
    dictionary = batch.dictionaries[static_cast<std::size_t>(layout.dictionary_slot)];
    if (dictionary == nullptr) return;
    BufferCursor first(dictionary->variadic_counts);
    first.enter(dictionary->schema->nodes()[0]);
    values_ = std::make_unique<Source>(*dictionary, 0, first);
  }

  const LayoutNode& layout;
  const Node& node;
  const std::span<const BufferView> buffers;
  std::shared_ptr<const RecordBatch> dictionary{};

  [[noreturn]] void fail(const std::string& what) const { throw_invalid(node_path(*batch_.schema, index_), what); }

  bool is_valid(std::int64_t i) const noexcept { return validity_ == nullptr || bit_at(validity_, i); }
  /// Returns whether elements may be null because their value in the dictionary is.
  bool has_null_values() const noexcept {
    return values_ != nullptr && (values_->node.null_count != 0 || values_->has_null_values());
  }
  /// Returns number `i` of the second buffer.
  template <typename T>
  T number(std::int64_t i) const noexcept {
    return number_at<T>(data_, i);
  }
  /// Returns the number of elements or bytes that offsets may point to.
  std::int64_t offsets_end() const noexcept {
    return layout.n_children > 0 ? batch_.nodes[index_ + 1].length : buffers[2].size;
  }
  /// Returns the index of an element of a dictionary-encoded node; 0 for a null.
  std::int64_t index(std::int64_t i) const {
    if (!is_valid(i)) return 0;
    const std::int64_t limit = values_ != nullptr ? values_->node.length : 0;
    return with_integer(layout.id, [&](auto zero) {
      const auto index = number<decltype(zero)>(i);
      if (std::cmp_greater_equal(index, 0) && std::cmp_less(index, limit)) return static_cast<std::int64_t>(index);
      fail("element " + std::to_string(i) + ": its index isn't one of the " + std::to_string(limit) +
           " elements of its dictionary");
    });
  }
  /// Returns an element of a node of a flat type, which may be dictionary-encoded.
  Value operator()(std::int64_t i) const {
    static constexpr std::byte kBools[] = {std::byte{0}, std::byte{1}};
    if (!is_valid(i)) return {};
    if (layout.dictionary_slot >= 0) {
      const std::int64_t at = index(i);
      return (*values_)(at);
    }
    switch (layout.type.buffers[1]) {
      case BufferKind::kBits: return {true, &kBools[bit_at(data_, i) ? 1 : 0], 1};
      case BufferKind::kOffsets32: return between(number<std::int32_t>(i), number<std::int32_t>(i + 1));
      case BufferKind::kOffsets64: return between(number<std::int64_t>(i), number<std::int64_t>(i + 1));
      case BufferKind::kViews: return in_view(data_ + i * kViewSize);
      default: return {true, data_ + i * layout.type.width, layout.type.width};
    }
  }
  /// Returns the buffers that hold the bytes of text and binary data, as those of views.
  std::vector<BufferView> pieces() const {
    if (layout.dictionary_slot >= 0) return values_ != nullptr ? values_->pieces() : std::vector<BufferView>{};
    if (layout.type.n_buffers < 3) return {buffers.begin() + 2, buffers.end()};
    std::vector<BufferView> pieces;
    for (std::int64_t at = 0; at < buffers[2].size; at += kPiece)
      pieces.push_back({data(2) + at, buffers[2].size - at});
    return pieces;
  }

 private:
  const std::byte* data(std::size_t buffer) const noexcept {
    return buffer < buffers.size() ? static_cast<const std::byte*>(buffers[buffer].data) : nullptr;
  }
  Value between(std::int64_t begin, std::int64_t end) const {
    if (begin < 0 || begin > end || end > buffers[2].size) fail(kWrongOffsets);
    return {true, data(2) + begin, end - begin, begin / kPiece};
  }
  Value in_view(const std::byte* view) const {
    const std::int64_t size = load_once<std::int32_t>(view);
    if (size >= 0 && size <= kMaxInline) return {true, view + 4, size};
    const std::int64_t piece = load_once<std::int32_t>(view + 8);
    const std::int64_t offset = load_once<std::int32_t>(view + 12);
    const auto buffer = static_cast<std::size_t>(piece) + 2;
    if (size < 0 || piece < 0 || offset < 0 || buffer >= buffers.size() || offset + size > buffers[buffer].size) {
      fail("a view lies outside of its buffers");
    }
    return {true, data(buffer) + offset, size, piece};
  }

  const RecordBatch& batch_;
  std::size_t index_;
  const std::byte* validity_ = data(0);
  const std::byte* data_ = data(1);         ///< Offsets, indices, views or values.
  std::unique_ptr<const Source> values_{};  ///< The elements of `dictionary`.
};

// ---- writing ----

/// Collects different values. Its hash table with open addressing takes a quarter of the time of std::unordered_map.
class Distinct {
 public:
  const std::vector<Value>& values() const noexcept { return values_; }

  /// Returns the index of an equal value in values(); adds the value if there is none.
  std::int64_t index_of(const Value& value) {
    if (2 * values_.size() >= slots_.size()) grow();
    const std::size_t hash = std::hash<std::string_view>()(value.text());
    const std::size_t at =
        find(hash, [&](std::int64_t i) { return values_[static_cast<std::size_t>(i)].text() == value.text(); });
    if (slots_[at].index < 0) {
      slots_[at] = {hash, std::ssize(values_)};
      values_.push_back(value);
    }
    return slots_[at].index;
  }

 private:
  struct Slot {
    std::size_t hash = 0;
    std::int64_t index = -1;  ///< -1: free.
  };
  /// Returns the slot of the value, or a free one: at least half of them are free.
  template <typename IsEqual>
  std::size_t find(std::size_t hash, IsEqual is_equal) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].index >= 0 && !(slots_[at].hash == hash && is_equal(slots_[at].index))) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.index >= 0) slots_[find(slot.hash, [](std::int64_t) { return false; })] = slot;
    }
  }

  std::vector<Slot> slots_;  ///< Their number is a power of two.
  std::vector<Value> values_;
};

/// Writes the nodes of a batch, whose schema and memory are set, one after another.
class Reencoder {
 public:
  Reencoder(RecordBatch* out, Copies* copies, std::int64_t* copied) : out_(*out), copies_(*copies), copied_(*copied) {}

  void write(const Source& in) {
    const LayoutNode& want = out_.schema->nodes()[out_.nodes.size()];
    const bool from_dictionary = in.layout.dictionary_slot >= 0;
    const bool to_dictionary = want.dictionary_slot >= 0;
    const std::int64_t n = in.node.length;
    out_.nodes.push_back(in.node);
    if (from_dictionary && to_dictionary) write_dictionary(in, want);
    if (in.layout.id == want.id && from_dictionary == to_dictionary) return write_same(in);
    if (!to_dictionary && in.has_null_values()) {
      const std::byte* const bits = add_bits(n, [&](std::int64_t i) { return in(i).is_valid; });
      out_.nodes.back().null_count = n - count_bits(bits, 0, n);
    } else {
      out_.buffers.push_back(in.buffers[0]);
    }
    if (from_dictionary && to_dictionary) {
      add_numbers(want.id, n, [&](std::int64_t i) { return in.index(i); });
    } else if (has_offsets(in.layout) && has_offsets(want)) {
      if (in.layout.type.buffers[1] == BufferKind::kOffsets32) return write_offsets<std::int32_t, std::int64_t>(in);
      write_offsets<std::int64_t, std::int32_t>(in);
    } else {
      write_values(want, n, in, in.pieces());
    }
  }

 private:
  std::byte* add(std::int64_t n, std::int64_t width) {
    std::int64_t size;
    if (!checked_multiply(n, width, &size)) throw std::bad_alloc();
    std::byte* const data = size > 0 ? copies_.add(size) : nullptr;
    out_.buffers.push_back({data, size});
    copied_ += size;
    return data;
  }
  template <typename Bit>
  const std::byte* add_bits(std::int64_t n, Bit bit) {
    std::byte* const bits = add(bytes_for_bits(n), 1);
    std::fill_n(bits, bytes_for_bits(n), std::byte{0});
    for (std::int64_t i = 0; i < n; ++i) {
      if (bit(i)) bits[i / 8] |= std::byte{1} << (i % 8);
    }
    return bits;
  }
  template <typename To>
  To narrowed(std::int64_t number) const {
    if (std::in_range<To>(number)) return static_cast<To>(number);
    throw ExportError(in_field(node_path(*out_.schema, out_.nodes.size() - 1)) + ": " + std::to_string(number) +
                      " doesn't fit the " + std::to_string(sizeof(To) * 8) +
                      " bits of the offsets, sizes or indices of the requested type; request wider ones");
  }
  /// Adds a buffer of `n` integers: `number(i)` is called once for each `i`, in order.
  template <typename Number>
  void add_numbers(TypeId id, std::int64_t n, Number number) {
    with_integer(id, [&](auto zero) {
      std::byte* to = add(n, sizeof zero);
      for (std::int64_t i = 0; i < n; ++i, to += sizeof zero) store_le(to, narrowed<decltype(zero)>(number(i)));
    });
  }
  void write_same(const Source& in) {
    out_.buffers.insert(out_.buffers.end(), in.buffers.begin(), in.buffers.end());
    if (in.layout.type.variadic) out_.variadic_counts.push_back(std::ssize(in.buffers) - in.layout.type.n_buffers);
  }

  void write_dictionary(const Source& in, const LayoutNode& want) {
    const DictionarySlot& slot = out_.schema->dictionaries()[static_cast<std::size_t>(want.dictionary_slot)];
    out_.dictionaries.push_back(in.dictionary);
    if (in.dictionary == nullptr || is_dictionary_of(*in.dictionary, slot)) return;
    const Conversion conversion(*in.dictionary->schema, slot.values, false);
    out_.dictionaries.back() = std::make_shared<RecordBatch>(conversion.apply(*in.dictionary, &copied_));
  }

  /// Changes the width of offsets. The bytes or the child that they point into are shared.
  template <typename From, typename To>
  void write_offsets(const Source& in) {
    const std::int64_t end = in.offsets_end();
    static_cast<void>(narrowed<To>(end));
    const std::int64_t n = in.node.length > 0 ? in.node.length + 1 : 0;
    std::byte* to = add(n, sizeof(To));
    From before = 0;
    bool in_order = true;
    for (std::int64_t i = 0; i < n; ++i, to += sizeof(To)) {
      const auto offset = in.number<From>(i);
      in_order &= before <= offset;
      store_le(to, static_cast<To>(offset));
      before = offset;
    }
    if (!in_order || before > end) in.fail(kWrongOffsets);
    out_.buffers.insert(out_.buffers.end(), in.buffers.begin() + 2, in.buffers.end());
  }

  /// Writes the buffers after the validity. `value(i)` returns a Value.
  template <class Values>
  void write_values(const LayoutNode& want, std::int64_t n, const Values& value,
                    const std::vector<BufferView>& pieces) {
    if (want.dictionary_slot >= 0) return write_encoded(want, n, value, pieces);
    if (has_offsets(want)) return write_bytes(want, n, value);
    if (want.type.variadic) return write_views(n, value, pieces);
    if (want.type.buffers[1] == BufferKind::kBits) {
      add_bits(n, [&](std::int64_t i) {
        const Value bit = value(i);
        return bit.is_valid && *bit.data != std::byte{0};
      });
      return;
    }
    std::byte* to = add(n, want.type.width);
    for (std::int64_t i = 0; i < n; ++i, to += want.type.width) {
      const Value one = value(i);
      std::fill(std::copy_n(one.data, one.size, to), to + want.type.width, std::byte{0});
    }
  }

  template <class Values>
  void write_bytes(const LayoutNode& want, std::int64_t n, const Values& value) {
    std::int64_t end = 0;
    const TypeId offsets = want.type.buffers[1] == BufferKind::kOffsets32 ? TypeId::kInt32 : TypeId::kInt64;
    add_numbers(offsets, n + 1, [&](std::int64_t i) {
      if (i > 0 && !checked_add(end, value(i - 1).size, &end)) throw std::bad_alloc();
      return end;
    });
    std::byte* to = add(end, 1);
    for (std::int64_t i = 0; i < n; ++i) {
      const Value one = value(i);
      end -= one.size;
      if (end < 0) break;
      to = std::copy_n(one.data, one.size, to);
    }
    if (end != 0) throw InvalidDataError("a column was changed while it was converted");
  }

  template <class Values>
  void write_views(std::int64_t n, const Values& value, const std::vector<BufferView>& pieces) {
    std::byte* view = add(n, kViewSize);
    for (std::int64_t i = 0; i < n; ++i, view += kViewSize) {
      const Value one = value(i);
      std::fill_n(view, kViewSize, std::byte{0});
      store_le(view, narrowed<std::int32_t>(one.size));
      std::copy_n(one.data, one.size > kMaxInline ? 4 : one.size, view + 4);
      if (one.size <= kMaxInline) continue;
      const void* const piece = pieces[static_cast<std::size_t>(one.piece)].data;
      store_le(view + 8, static_cast<std::int32_t>(one.piece));
      store_le(view + 12, static_cast<std::int32_t>(one.data - static_cast<const std::byte*>(piece)));
    }
    out_.buffers.insert(out_.buffers.end(), pieces.begin(), pieces.end());
    out_.variadic_counts.push_back(std::ssize(pieces));
  }

  /// Writes indices, and a dictionary of the different values in the order of their first elements.
  template <class Values>
  void write_encoded(const LayoutNode& want, std::int64_t n, const Values& value,
                     const std::vector<BufferView>& pieces) {
    Distinct distinct;
    add_numbers(want.id, n, [&](std::int64_t i) -> std::int64_t {
      const Value one = value(i);
      return one.is_valid ? distinct.index_of(one) : 0;
    });
    out_.dictionaries.push_back(new_dictionary(want.dictionary_slot, distinct.values(), pieces));
  }
  std::shared_ptr<const RecordBatch> new_dictionary(std::int32_t slot, const std::vector<Value>& values,
                                                    const std::vector<BufferView>& pieces) {
    const auto dictionary = std::make_shared<RecordBatch>();
    static_cast<device::Memory&>(*dictionary) = out_;
    dictionary->schema = out_.schema->dictionaries()[static_cast<std::size_t>(slot)].values;
    dictionary->num_rows = std::ssize(values);
    dictionary->nodes = {{dictionary->num_rows, 0, 0}};
    dictionary->buffers = {{}};
    const auto value = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
    Reencoder(dictionary.get(), &copies_, &copied_)
        .write_values(dictionary->schema->nodes()[0], dictionary->num_rows, value, pieces);
    return dictionary;
  }

  RecordBatch& out_;
  Copies& copies_;
  std::int64_t& copied_;
};

}  // namespace

RecordBatch reencoded(RecordBatch batch, const std::shared_ptr<const Schema>& to, std::int64_t* copied) {
  const auto source = std::make_shared<const RecordBatch>(normalized(std::move(batch), copied, Offsets::kFromZero));
  const auto copies = std::make_shared<Copies>();
  copies->rest = source;
  RecordBatch out;
  static_cast<device::Memory&>(out) = *source;
  out.owner = copies;
  out.schema = to;
  out.num_rows = source->num_rows;
  out.custom_metadata = source->custom_metadata;
  Reencoder writer(&out, copies.get(), copied);
  BufferCursor at(source->variadic_counts);
  for (std::size_t node = 0; node < to->nodes().size(); ++node) {
    at.enter(source->schema->nodes()[node]);
    const Source in(*source, node, at);
    writer.write(in);
    if (in.layout.nullable && !to->nodes()[node].nullable && out.nodes.back().null_count != 0) {
      in.fail("elements are null, but the field is requested without nulls");
    }
  }
  return out;
}

}  // namespace crossdock::array
