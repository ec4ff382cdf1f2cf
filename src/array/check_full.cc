#include <cstring>
#include <string>

#include "array/internal/bits.h"
#include "array/internal/check_structure.h"
#include "array/internal/digits.h"
#include "array/internal/element_checks.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "array/internal/union_children.h"
#include "array/internal/utf8.h"
#include "array/view_layout.h"
#include "core/amounts.h"
#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

/// One node of a batch whose structure was checked.
struct NodeView {
  std::size_t index;
  const LayoutNode* layout;
  Node node;
  const BufferView* buffers;
  std::size_t n_variadic;

  const std::byte* data(std::size_t buffer) const noexcept {
    return static_cast<const std::byte*>(buffers[buffer].data);
  }
  /// Returns the first byte of the first element shown, in a buffer of elements of `width` bytes.
  const std::byte* elements(std::size_t buffer, std::int64_t width) const noexcept {
    return data(buffer) + node.offset * width;
  }
  bool has_nulls() const noexcept {
    if (!layout->type.has_validity() || data(0) == nullptr) return false;
    return node.null_count < 0 ? count_bits(data(0), node.offset, node.length) != node.length : node.null_count > 0;
  }
  bool is_valid(std::int64_t element) const noexcept {
    return data(0) == nullptr || bit_at(data(0), node.offset + element);
  }
};

class FullChecker {
 public:
  FullChecker(const RecordBatch& batch, const Place* parent, Dictionaries dictionaries)
      : batch_(batch), schema_(*batch.schema), parent_(parent), dictionaries_(dictionaries) {}

  void run() const {
    BufferCursor at(batch_.variadic_counts);
    for (std::size_t i = 0; i < schema_.nodes().size(); ++i) {
      const LayoutNode& layout = schema_.nodes()[i];
      at.enter(layout);
      const NodeView view{i, &layout, batch_.nodes[i], batch_.buffers.data() + at.first(), at.n_variadic()};
      if (view.node.length > 0) check(view);
      if (layout.dictionary_slot >= 0) check_dictionary(view);
    }
  }

 private:
  [[noreturn]] void fail(const NodeView& in, const std::string& what) const {
    const Place place{parent_, &schema_, in.index};
    throw_invalid(path_of(&place), what + " (validation=\"structure\", for trusted data, doesn't check values)");
  }
  [[noreturn]] void fail_at(const NodeView& in, std::int64_t element, const std::string& what) const {
    fail(in, "element " + std::to_string(element) + ": " + what);
  }

  void check(const NodeView& in) const {
    if (in.layout->type.has_validity()) check_null_count(in);
    if (is_of_map(in.index)) check_no_nulls(in);
    switch (in.layout->id) {
      case TypeId::kUtf8: check_offsets<std::int32_t>(in); return check_utf8<std::int32_t>(in);
      case TypeId::kLargeUtf8: check_offsets<std::int64_t>(in); return check_utf8<std::int64_t>(in);
      case TypeId::kBinary:
      case TypeId::kList:
      case TypeId::kMap: return check_offsets<std::int32_t>(in);
      case TypeId::kLargeBinary:
      case TypeId::kLargeList: return check_offsets<std::int64_t>(in);
      case TypeId::kDecimal32:
      case TypeId::kDecimal64:
      case TypeId::kDecimal128:
      case TypeId::kDecimal256: return check_decimals(in);
      case TypeId::kDate64: return check_days(in);
      case TypeId::kTime32: return check_times<std::int32_t>(in, TypeId::kInt32);
      case TypeId::kTime64: return check_times<std::int64_t>(in, TypeId::kInt64);
      case TypeId::kSparseUnion:
      case TypeId::kDenseUnion: return check_union(in);
      case TypeId::kRunEndEncoded: return;  // Checked by its first child, below.
      case TypeId::kUtf8View:
      case TypeId::kBinaryView: return check_views(in);
      case TypeId::kListView: return check_list_views<std::int32_t>(in);
      case TypeId::kLargeListView: return check_list_views<std::int64_t>(in);
      default:
        if (in.index > 0 && schema_.nodes()[in.index - 1].id == TypeId::kRunEndEncoded) check_run_ends(in);
    }
  }

  void check_null_count(const NodeView& in) const {
    if (in.node.null_count < 0 || in.data(0) == nullptr) return;
    const std::int64_t nulls = in.node.length - count_bits(in.data(0), in.node.offset, in.node.length);
    if (nulls != in.node.null_count) {
      fail(in, "null count " + std::to_string(in.node.null_count) + ", but its validity marks " +
                   counted(nulls, "element") + " as null");
    }
  }

  template <typename Offset>
  void check_offsets(const NodeView& in) const {
    const std::byte* offsets = in.elements(1, sizeof(Offset));
    const std::int64_t n = in.node.length + 1;
    if (are_ordered<Offset>(offsets, n)) return;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const auto begin = number_at<Offset>(offsets, i);
      const auto end = number_at<Offset>(offsets, i + 1);
      if (begin < 0 || end < begin) fail_at(in, i, offsets_text(begin, end));
    }
  }

  /// The offsets were checked to be in order and within the data. The producer may have changed them since, so each is
  /// compared with the size of the data again before use.
  template <typename Offset>
  void check_utf8(const NodeView& in) const {
    const std::byte* offsets = in.elements(1, sizeof(Offset));
    const std::byte* data = in.data(2);
    const std::int64_t n = in.node.length;
    const std::int64_t first = number_at<Offset>(offsets, 0);
    const std::int64_t last = number_at<Offset>(offsets, n);
    if (const std::int64_t size = in.buffers[2].size; !in_order(first, last, size)) {
      fail(in, offsets_text(first, last) + ", and its data buffer has " + std::to_string(size) + " bytes");
    }
    if (is_ascii(data + first, last - first)) return;
    // Checks the text as a whole. If it is valid and no element begins within a character, each element is valid.
    bool whole = is_utf8(data + first, last - first);
    for (std::int64_t i = 0; whole && i < n; ++i) {
      const std::int64_t begin = number_at<Offset>(offsets, i);
      whole = begin == last || (in_order(first, begin, last) && !is_continuation(data[begin]));
    }
    if (whole) return;
    // Checks the elements one by one: null elements may hold any bytes.
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t begin = number_at<Offset>(offsets, i);
      const std::int64_t end = number_at<Offset>(offsets, i + 1);
      if (!in_order(begin, end, last)) fail_at(in, i, offsets_text(begin, end));
      if (in.is_valid(i) && !is_utf8(data + begin, end - begin)) fail_utf8(in, i);
    }
  }

  static bool in_order(std::int64_t begin, std::int64_t end, std::int64_t size) noexcept {
    return 0 <= begin && begin <= end && end <= size;
  }
  static std::string offsets_text(std::int64_t begin, std::int64_t end) {
    return "its offsets run from " + std::to_string(begin) + " to " + std::to_string(end);
  }
  [[noreturn]] void fail_utf8(const NodeView& in, std::int64_t element) const {
    fail_at(in, element, "it isn't UTF-8");
  }

  void check_decimals(const NodeView& in) const {
    const std::int32_t width = in.layout->type.width;
    const Type& type = in.layout->field->type;
    const std::byte* numbers = in.elements(1, width);
    const DigitLimit limit(type.precision);
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      if (limit.holds(numbers + i * width, width) || !in.is_valid(i)) continue;
      fail_at(in, i, "it has more than the " + std::to_string(type.precision) + " digits of " + type_name(type));
    }
  }

  /// A date64 counts milliseconds, but must be a whole number of days.
  void check_days(const NodeView& in) const {
    constexpr std::int64_t kDay = kSecondsPerDay * 1000;
    const std::byte* dates = in.elements(1, sizeof kDay);
    if (are_multiples64(dates, in.node.length, kDay)) return;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const auto date = number_at<std::int64_t>(dates, i);
      if (date % kDay == 0 || !in.is_valid(i)) continue;
      fail_at(in, i, std::to_string(date) + " milliseconds aren't a whole number of days");
    }
  }

  /// A time of day is at least 0, and less than a day. `as`: integers of its width.
  template <typename Int>
  void check_times(const NodeView& in, TypeId as) const {
    const Type& type = in.layout->field->type;
    const std::int64_t day = kSecondsPerDay * kUnitsPerSecond[static_cast<std::size_t>(type.unit)];
    const std::byte* times = in.elements(1, sizeof(Int));
    if (are_below(as, times, in.node.length, day)) return;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const auto time = number_at<Int>(times, i);
      if ((time >= 0 && time < day) || !in.is_valid(i)) continue;
      fail_at(in, i, std::to_string(time) + " isn't a time of day in " + type_name(type));
    }
  }

  static constexpr std::int64_t kSecondsPerDay = 86400;
  static constexpr std::int64_t kUnitsPerSecond[] = {1, 1'000, 1'000'000, 1'000'000'000};  ///< By TimeUnit.

  /// True if a node is a map's entries, or their keys.
  bool is_of_map(std::size_t index) const noexcept {
    const auto is_map = [&](std::size_t above) {
      return index >= above && schema_.nodes()[index - above].id == TypeId::kMap;
    };
    return is_map(1) || is_map(2);
  }

  void check_no_nulls(const NodeView& in) const {
    if (in.layout->id != TypeId::kNull && !in.has_nulls()) return;
    fail(in, schema_.nodes()[in.index - 1].id == TypeId::kMap ? "a map's entries are null" : "a map's keys are null");
  }

  void check_union(const NodeView& in) const {
    const Type& type = in.layout->field->type;
    const UnionChildren children(type);
    const std::byte* ids = in.elements(0, 1);
    const bool is_dense = in.layout->id == TypeId::kDenseUnion;
    const std::byte* offsets = is_dense ? in.elements(1, sizeof(std::int32_t)) : nullptr;
    // By type id; 0 for ids without a child, so that no offset is below it.
    std::int64_t lengths[256] = {};
    std::int64_t before[256] = {};  // The last offset into the child.
    std::size_t child = in.index + 1;
    for (std::size_t c = 0; c < type.type_codes.size(); ++c, child = subtree_end(schema_, child)) {
      lengths[static_cast<std::uint8_t>(type.type_codes[c])] = batch_.nodes[child].length;
    }
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const auto id = load_le<std::int8_t>(ids + i);
      if (children.index(id) < 0) {
        fail_at(in, i, "no child of " + type_name(type) + " has the type id " + std::to_string(id));
      }
      if (!is_dense) continue;
      const std::int64_t offset = number_at<std::int32_t>(offsets, i);
      const std::int64_t length = lengths[static_cast<std::uint8_t>(id)];
      if (offset < 0 || offset >= length) {
        fail_at(in, i,
                "offset " + std::to_string(offset) + " into the " + std::to_string(length) +
                    " elements of the child with type id " + std::to_string(id));
      }
      std::int64_t& last = before[static_cast<std::uint8_t>(id)];
      if (offset < last) {
        fail_at(in, i,
                "offset " + std::to_string(offset) + " into the child with type id " + std::to_string(id) + " after " +
                    std::to_string(last) + ": a dense union's offsets into each child must be in order");
      }
      last = offset;
    }
  }

  void check_run_ends(const NodeView& in) const {
    const std::byte* ends = in.elements(1, in.layout->type.width);
    if (in.has_nulls()) fail(in, "run ends are null");
    if (are_run_ends(in.layout->id, ends, in.node.length)) return;
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const std::int64_t end = load_integer(in.layout->id, ends, i);
      if (end <= before) {
        fail_at(in, i, "the run ends at " + std::to_string(end) + ", not after " + std::to_string(before));
      }
      before = end;
    }
  }

  void check_views(const NodeView& in) const {
    const bool is_text = in.layout->id == TypeId::kUtf8View;
    const std::byte* views = in.elements(1, kViewSize);
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const std::byte* view = views + i * kViewSize;
      const auto length = load_once<std::int32_t>(view);
      if (length >= 0 && length <= kMaxInline) {
        if (is_inline(view + sizeof(std::int32_t), length, is_text) || !in.is_valid(i)) continue;
        fail_inline(in, i, view + sizeof(std::int32_t), length);
      }
      if (in.is_valid(i)) check_long_view(in, i, view, length, is_text);
    }
  }

  /// True if the 12 bytes after a short view's length are valid.
  static bool is_inline(const std::byte* bytes, std::int32_t length, bool is_text) noexcept {
    // Reads the bytes as two numbers: the unused bytes must be zero, and ASCII text needs no further check.
    const auto low = load_le<std::uint64_t>(bytes);
    const auto high = std::uint64_t{load_le<std::uint32_t>(bytes + 8)};
    const std::uint64_t over = length >= 8 ? high >> ((length - 8) * 8) : high | (low >> (length * 8));
    if (over != 0) return false;
    return !is_text || ((low | high) & 0x8080808080808080u) == 0 || is_utf8(bytes, length);
  }

  [[noreturn]] void fail_inline(const NodeView& in, std::int64_t element, const std::byte* bytes,
                                std::int32_t length) const {
    for (std::int32_t i = length; i < kMaxInline; ++i) {
      if (bytes[i] != std::byte{0}) {
        fail_at(in, element, "the padding after the " + std::to_string(length) + " bytes of its short view isn't 0");
      }
    }
    fail_utf8(in, element);
  }

  void check_long_view(const NodeView& in, std::int64_t element, const std::byte* view, std::int32_t length,
                       bool is_text) const {
    const auto buffer = load_once<std::int32_t>(view + 8);
    const auto offset = load_once<std::int32_t>(view + 12);
    if (length < 0 || buffer < 0 || static_cast<std::size_t>(buffer) >= in.n_variadic || offset < 0) {
      fail_at(in, element,
              "its view has " + std::to_string(length) + " bytes at " + std::to_string(offset) +
                  " of variadic buffer " + std::to_string(buffer) + "; there are " + std::to_string(in.n_variadic));
    }
    const BufferView& variadic = in.buffers[in.layout->type.n_buffers + static_cast<std::size_t>(buffer)];
    if (std::int64_t{offset} + length > variadic.size) {
      fail_at(in, element,
              "its view has " + std::to_string(length) + " bytes at " + std::to_string(offset) +
                  " of variadic buffer " + std::to_string(buffer) + ", which has " + std::to_string(variadic.size));
    }
    const auto* bytes = static_cast<const std::byte*>(variadic.data) + offset;
    if (std::memcmp(view + 4, bytes, sizeof(std::int32_t)) != 0) {
      fail_at(in, element, "the prefix in its view differs from its first bytes");
    }
    if (is_text && !is_utf8(bytes, length)) fail_utf8(in, element);
  }

  template <typename Int>
  void check_list_views(const NodeView& in) const {
    const std::byte* offsets = in.elements(1, sizeof(Int));
    const std::byte* sizes = in.elements(2, sizeof(Int));
    const std::int64_t length = batch_.nodes[in.index + 1].length;
    if (are_lists<Int>(offsets, sizes, in.node.length, length)) return;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      const std::int64_t offset = number_at<Int>(offsets, i);
      const std::int64_t size = number_at<Int>(sizes, i);
      if (offset < 0 || size < 0 || offset > length || size > length - offset) {
        fail_at(in, i,
                "its list has " + std::to_string(size) + " elements from " + std::to_string(offset) + " of the " +
                    std::to_string(length) + " of its child");
      }
    }
  }

  void check_dictionary(const NodeView& in) const {
    const RecordBatch* dictionary = batch_.dictionaries[static_cast<std::size_t>(in.layout->dictionary_slot)].get();
    check_indices(in, dictionary != nullptr ? dictionary->num_rows : 0);
    if (dictionary == nullptr || dictionaries_ == Dictionaries::kTrust) return;
    const Place here{parent_, &schema_, in.index};
    FullChecker(*dictionary, &here, dictionaries_).run();
  }

  void check_indices(const NodeView& in, std::int64_t limit) const {
    if (in.node.length == 0) return;
    const std::int32_t width = in.layout->type.width;
    const std::byte* indices = in.elements(1, width);
    if (are_below(in.layout->id, indices, in.node.length, limit)) return;
    for (std::int64_t i = 0; i < in.node.length; ++i) {
      if (!in.is_valid(i) || are_below(in.layout->id, indices + i * width, 1, limit)) continue;
      fail_at(in, i, "its index isn't one of the " + std::to_string(limit) + " elements of its dictionary");
    }
  }

  const RecordBatch& batch_;
  const Schema& schema_;
  const Place* parent_;
  const Dictionaries dictionaries_;
};

}  // namespace

void check_full(const RecordBatch& batch, Dictionaries dictionaries) {
  check_structure(batch);
  check_readable(batch, "check_full()");
  FullChecker(batch, nullptr, dictionaries).run();
}

}  // namespace crossdock::array
