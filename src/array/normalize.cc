#include <algorithm>
#include <limits>
#include <type_traits>

#include "array/internal/bits.h"
#include "array/internal/check_structure.h"
#include "array/internal/copies.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "array/internal/union_children.h"
#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

/// Replaces the nodes and buffer views of `*out` by the normal form of `in` (see normalized()). Never writes to buffers
/// that exist. Without `out`, run() changes nothing and only returns whether anything would change.
class Normalizer {
 public:
  Normalizer(const RecordBatch& in, RecordBatch* out, Offsets offsets, std::int64_t* copied_bytes)
      : in_(in),
        schema_(*in.schema),
        out_(out),
        offsets_(offsets),
        copied_bytes_(copied_bytes),
        at_(in.variadic_counts) {}

  /// True if something changed, or would.
  bool run() {
    std::size_t node = 0;
    while (node < schema_.nodes().size()) node = walk(node, 0, in_.num_rows);
    for (std::size_t slot = 0; slot < in_.dictionaries.size(); ++slot) normalize_dictionary(slot);
    if (copies_ !=
        nullptr) {  // copies exist only if `out_` is set. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker)
      copies_->rest = std::move(out_->owner);
      out_->owner = std::move(copies_);
    }
    return changed_;
  }

 private:
  [[noreturn]] void fail(std::size_t node, const std::string& what) const {
    throw_invalid(node_path(schema_, node), what);
  }

  void set_node(std::size_t node, std::int64_t length, std::int64_t null_count) {
    const Node& old = in_.nodes[node];
    if (old.length == length && old.null_count == null_count && old.offset == 0) return;
    changed_ = true;
    if (out_ != nullptr) out_->nodes[node] = {length, null_count, 0};
  }

  void set_buffer(std::size_t buffer, const void* data, std::int64_t size) {
    const BufferView& old = in_.buffers[buffer];
    if (size == 0) data = nullptr;
    if (old.data == data && old.size == size) return;
    changed_ = true;
    if (out_ != nullptr) out_->buffers[buffer] = {data, size};
  }

  void set_bits(std::size_t buffer, const BufferView& bits, std::int64_t start, std::int64_t length) {
    const auto* data = static_cast<const std::byte*>(bits.data);
    if (length == 0) return set_buffer(buffer, nullptr, 0);
    if (start % 8 == 0) return set_buffer(buffer, data + start / 8, bytes_for_bits(length));
    changed_ = true;
    if (out_ == nullptr) return;
    const std::int64_t size = bytes_for_bits(length);
    std::byte* const copy = make_copy(buffer, size);
    copy_bits(data, start, length, copy);
    *copied_bytes_ += size;
  }

  /// Replaces a buffer by new memory that the batch owns. The caller adds its size to `*copied_bytes_`, unless it holds
  /// rewritten offsets, which don't count.
  std::byte* make_copy(std::size_t buffer, std::int64_t size) {
    if (copies_ == nullptr) copies_ = std::make_shared<Copies>();
    std::byte* const copy = copies_->add(size);
    out_->buffers[buffer] = {copy, size};
    return copy;
  }

  std::int64_t null_count(std::size_t node, std::size_t first_buffer, std::int64_t start, std::int64_t length) const {
    const LayoutNode& layout = schema_.nodes()[node];
    if (layout.id == TypeId::kNull) return length;
    if (!layout.type.has_validity()) return 0;
    const Node& old = in_.nodes[node];
    const BufferView& validity = in_.buffers[first_buffer];
    if (old.null_count == 0 || validity.data == nullptr) return 0;
    if (old.null_count > 0 && start == 0 && length == old.length) return old.null_count;
    return length - count_bits(static_cast<const std::byte*>(validity.data), old.offset + start, length);
  }

  /// The range that the offsets of a node point into: elements of its child, or bytes.
  struct Range {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };

  /// Sets the buffer to the offsets needed, or writes new offsets from 0.
  template <typename Offset>
  Range set_offsets(std::size_t node, std::size_t buffer, std::int64_t start, std::int64_t length) {
    const BufferView& old = in_.buffers[buffer];
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(Offset));
    const auto* data = static_cast<const std::byte*>(old.data) + start * kWidth;
    const auto first = load_once<Offset>(data);
    const auto last = number_at<Offset>(data, length);
    if (first < 0 || last < first) {
      fail(node, "its offsets run from " + std::to_string(first) + " to " + std::to_string(last));
    }
    if (offsets_ == Offsets::kKeep || first == 0) {
      set_buffer(buffer, data, (length + 1) * kWidth);
      return {0, last};
    }
    changed_ = true;
    if (out_ != nullptr) {
      std::byte* const copy = make_copy(buffer, (length + 1) * kWidth);
      for (std::int64_t i = 0; i <= length; ++i) {
        // Offsets between the first and the last aren't checked here. An invalid offset stays invalid, and the
        // subtraction must not be undefined.
        using Unsigned = std::make_unsigned_t<Offset>;
        const auto moved = static_cast<Unsigned>(load_le<Offset>(data + i * kWidth)) - static_cast<Unsigned>(first);
        store_le<Offset>(copy + i * kWidth, static_cast<Offset>(moved));
      }
    }
    return {first, last};
  }

  void set_bytes(std::size_t node, std::size_t buffer, Range range) {
    const BufferView& old = in_.buffers[buffer];
    if (range.last > old.size) {
      fail(node, "its offsets end at " + std::to_string(range.last) + ", beyond its " + std::to_string(old.size) +
                     " bytes of data");
    }
    set_buffer(buffer, static_cast<const std::byte*>(old.data) + range.first, range.last - range.first);
  }

  /// Keeps `length` elements from element `start` of the node on (not counting its own offset). Returns the index of
  /// the node after its subtree.
  std::size_t walk(std::size_t node, std::int64_t start, std::int64_t length) {
    const LayoutNode& layout = schema_.nodes()[node];
    const Node old = in_.nodes[node];
    if (start > old.length || length > old.length - start) {
      fail(node, "length " + std::to_string(old.length) + ", but its parent needs " + std::to_string(length) +
                     " elements from element " + std::to_string(start));
    }
    at_.enter(layout);
    const std::size_t first_buffer = at_.first();
    const std::size_t end_buffer = at_.end();
    const std::int64_t base = old.offset + start;
    const std::int64_t nulls = null_count(node, first_buffer, start, length);
    if (length == 0) {
      for (std::size_t buffer = first_buffer; buffer < end_buffer; ++buffer) set_buffer(buffer, nullptr, 0);
      set_node(node, 0, nulls);
      return walk_children(node, {});
    }
    if (layout.id == TypeId::kDenseUnion) {
      set_node(node, length, nulls);
      return walk_dense_union(node, first_buffer, base, length);
    }
    const Range range = set_buffers(node, first_buffer, base, length, nulls);
    set_node(node, length, nulls);
    switch (layout.id) {
      case TypeId::kStruct:
      case TypeId::kSparseUnion: return walk_children(node, {base, base + length});
      case TypeId::kFixedSizeList:
        return walk_children(node, {base * layout.fixed_size, (base + length) * layout.fixed_size});
      case TypeId::kRunEndEncoded: return walk_runs(node, base, length);
      default: return walk_children(node, range);
    }
  }

  std::size_t walk_children(std::size_t node, Range shown) {
    std::size_t next = node + 1;
    for (std::int32_t i = 0; i < schema_.nodes()[node].n_children; ++i) {
      next = walk(next, shown.first, shown.last - shown.first);
    }
    return next;
  }

  /// Returns the range of the children, or of the bytes, that is shown.
  Range set_buffers(std::size_t node, std::size_t first_buffer, std::int64_t base, std::int64_t length,
                    std::int64_t nulls) {
    const TypeLayout& type = schema_.nodes()[node].type;
    Range range;
    for (std::size_t b = 0; b < type.n_buffers; ++b) {
      const std::size_t buffer = first_buffer + b;
      const BufferView view = in_.buffers[buffer];
      switch (type.buffers[b]) {
        case BufferKind::kValidity: set_bits(buffer, view, base, nulls == 0 ? 0 : length); break;
        case BufferKind::kBits: set_bits(buffer, view, base, length); break;
        case BufferKind::kOffsets32: range = set_offsets<std::int32_t>(node, buffer, base, length); break;
        case BufferKind::kOffsets64: range = set_offsets<std::int64_t>(node, buffer, base, length); break;
        case BufferKind::kBytes: set_bytes(node, buffer, range); break;
        case BufferKind::kListViewOffsets32: range = set_list_views<std::int32_t>(node, buffer, base, length); break;
        case BufferKind::kListViewOffsets64: range = set_list_views<std::int64_t>(node, buffer, base, length); break;
        case BufferKind::kFixed:
        case BufferKind::kTypeIds:
        case BufferKind::kUnionOffsets:
        case BufferKind::kViews:
        case BufferKind::kListViewSizes32:
        case BufferKind::kListViewSizes64: set_fixed(buffer, element_width(type.buffers[b], type.width), base, length);
      }
    }
    return range;
  }

  void set_fixed(std::size_t buffer, std::int64_t width, std::int64_t base, std::int64_t length) {
    set_buffer(buffer, static_cast<const std::byte*>(in_.buffers[buffer].data) + base * width, length * width);
  }

  /// Sets the offsets of a list view's node; the sizes are in the next buffer, which is set later. Returns the range of
  /// the child that is shown: all of it, because lists may lie anywhere. Exception: Offsets::kFromZero limits it to the
  /// part that lists point into.
  template <typename Int>
  Range set_list_views(std::size_t node, std::size_t buffer, std::int64_t base, std::int64_t length) {
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(Int));
    const std::int64_t child_length = in_.nodes[node + 1].length;
    Range range{0, child_length};
    const auto* offsets = static_cast<const std::byte*>(in_.buffers[buffer].data) + base * kWidth;
    const auto* sizes = static_cast<const std::byte*>(in_.buffers[buffer + 1].data) + base * kWidth;
    set_fixed(buffer, kWidth, base, length);
    if (offsets_ == Offsets::kKeep) return range;
    Extent used;
    std::int64_t empty_from = 0;  // the highest offset of an empty list
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t offset = number_at<Int>(offsets, i);
      const std::int64_t size = number_at<Int>(sizes, i);
      // If a list is invalid, it stays invalid, and the child stays whole.
      if (offset < 0 || (size != 0 && !used.add(offset, size, child_length))) return range;
      if (size == 0) empty_from = std::max(empty_from, offset);
    }
    if (empty_from > child_length) return range;
    range = used.range();
    if (range.first == 0 && empty_from <= range.last) return range;
    changed_ = true;
    std::byte* const copy = make_copy(buffer, length * kWidth);
    for (std::int64_t i = 0; i < length; ++i) {
      // Unsigned arithmetic: an offset that was valid before may be invalid now.
      using Unsigned = std::make_unsigned_t<Int>;
      const bool empty = load_le<Int>(sizes + i * kWidth) == 0;
      const auto moved = load_le<Unsigned>(offsets + i * kWidth) - static_cast<Unsigned>(range.first);
      store_le<Unsigned>(copy + i * kWidth, empty ? Unsigned{0} : static_cast<Unsigned>(moved));
    }
    return range;
  }

  /// The part of a child that the elements checked so far point into.
  struct Extent {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = 0;

    /// Adds a part. Returns false if it doesn't lie within a child of `length` elements.
    bool add(std::int64_t offset, std::int64_t size, std::int64_t length) noexcept {
      if (offset < 0 || size < 0 || offset > length || size > length - offset) return false;
      first = std::min(first, offset);
      last = std::max(last, offset + size);
      return true;
    }
    Range range() const noexcept { return last == 0 ? Range{} : Range{first, last}; }
  };

  /// Keeps type ids and offsets unchanged and children whole, because elements may point anywhere. Exception:
  /// Offsets::kFromZero cuts the children to the part that is pointed into, and moves the offsets.
  std::size_t walk_dense_union(std::size_t node, std::size_t first_buffer, std::int64_t base, std::int64_t length) {
    constexpr std::int64_t kWidth = sizeof(std::int32_t);
    const auto* ids = static_cast<const std::byte*>(in_.buffers[first_buffer].data) + base;
    const auto* offsets = static_cast<const std::byte*>(in_.buffers[first_buffer + 1].data) + base * kWidth;
    set_fixed(first_buffer, 1, base, length);
    set_fixed(first_buffer + 1, kWidth, base, length);
    std::vector<Extent> used;
    if (offsets_ == Offsets::kFromZero) used = extents(node, ids, offsets, length);
    if (!used.empty()) move_union_offsets(node, first_buffer + 1, ids, offsets, length, used);
    std::size_t next = node + 1;
    for (std::int32_t i = 0; i < schema_.nodes()[node].n_children; ++i) {
      const Range shown = used.empty() ? Range{0, in_.nodes[next].length} : used[static_cast<std::size_t>(i)].range();
      next = walk(next, shown.first, shown.last - shown.first);
    }
    return next;
  }

  /// Returns, for each child, the part that is pointed into; empty if a type id or an offset is invalid.
  std::vector<Extent> extents(std::size_t node, const std::byte* ids, const std::byte* offsets,
                              std::int64_t length) const {
    const LayoutNode& layout = schema_.nodes()[node];
    std::vector<Extent> used(static_cast<std::size_t>(layout.n_children));
    std::vector<std::int64_t> lengths;
    std::size_t child = node + 1;
    for (std::int32_t i = 0; i < layout.n_children; ++i, child = subtree_end(schema_, child)) {
      lengths.push_back(in_.nodes[child].length);
    }
    const UnionChildren children(layout.field->type);
    for (std::int64_t i = 0; i < length; ++i) {
      const int number = children.index(load_once<std::int8_t>(ids + i));
      if (number < 0) return {};
      const auto of = static_cast<std::size_t>(number);
      if (!used[of].add(number_at<std::int32_t>(offsets, i), 1, lengths[of])) return {};
    }
    return used;
  }

  void move_union_offsets(std::size_t node, std::size_t buffer, const std::byte* ids, const std::byte* offsets,
                          std::int64_t length, const std::vector<Extent>& used) {
    if (std::ranges::all_of(used, [](const Extent& extent) { return extent.range().first == 0; })) return;
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(std::int32_t));
    const UnionChildren children(schema_.nodes()[node].field->type);
    changed_ = true;
    std::byte* const copy = make_copy(buffer, length * kWidth);
    for (std::int64_t i = 0; i < length; ++i) {
      // An id that was valid before may be invalid now, in memory that another process can write.
      const int child = children.index(load_once<std::int8_t>(ids + i));
      const std::int64_t by = child < 0 ? 0 : used[static_cast<std::size_t>(child)].range().first;
      const std::int64_t moved = load_le<std::int32_t>(offsets + i * kWidth) - by;
      store_le<std::int32_t>(copy + i * kWidth, static_cast<std::int32_t>(moved));
    }
  }

  /// Keeps the runs of elements [base, base + length). Run ends count from the array's first element, so they are
  /// written anew if `base` isn't 0.
  std::size_t walk_runs(std::size_t node, std::int64_t base, std::int64_t length) {
    const std::size_t ends_node = node + 1;
    const TypeId type = schema_.nodes()[ends_node].id;
    const Node ends = in_.nodes[ends_node];
    const std::size_t validity = at_.end();  // the next node's buffers are validity and the run ends
    const void* data = in_.buffers[validity + 1].data;
    const auto run_that_reaches = [&](std::int64_t from, std::int64_t least) {
      return find_run(type, data, ends.offset + from, ends.offset + ends.length, least) - ends.offset;
    };
    const std::int64_t first = run_that_reaches(0, base + 1);
    const std::int64_t last = run_that_reaches(first, base + length);
    if (last >= ends.length) fail(ends_node, "the runs end before element " + std::to_string(base + length));
    const std::int64_t runs = last - first + 1;
    if (null_count(ends_node, validity, first, runs) != 0) fail(ends_node, "run ends are null");
    std::size_t next = walk(ends_node, first, runs);
    if (base > 0) {
      changed_ = true;
      if (out_ != nullptr) move_run_ends(type, validity + 1, base, length, runs);
    }
    next = walk(next, first, runs);
    return next;
  }

  void move_run_ends(TypeId type, std::size_t buffer, std::int64_t base, std::int64_t length, std::int64_t runs) {
    const BufferView old = out_->buffers[buffer];
    std::byte* const copy = make_copy(buffer, old.size);
    *copied_bytes_ += old.size;
    for (std::int64_t run = 0; run < runs; ++run) {
      // Run ends between the first and the last aren't checked here. An invalid run end stays invalid, within the range
      // of its type.
      const std::int64_t end = std::min(load_integer(type, old.data, run), base + length) - base;
      store_run_end(type, copy, run, std::max<std::int64_t>(end, 0));
    }
  }

  void normalize_dictionary(std::size_t slot) {
    const std::shared_ptr<const RecordBatch>& dictionary = in_.dictionaries[slot];
    // Keeps an unchanged dictionary at its address, because a sender identifies dictionaries by their addresses.
    if (dictionary == nullptr || !Normalizer(*dictionary, nullptr, Offsets::kKeep, nullptr).run()) return;
    changed_ = true;
    if (out_ == nullptr) return;
    auto changed = std::make_shared<RecordBatch>(*dictionary);
    Normalizer(*changed, changed.get(), Offsets::kKeep, copied_bytes_).run();
    out_->dictionaries[slot] = std::move(changed);
  }

  const RecordBatch& in_;  ///< The same object as `*out_`, if `out_` isn't null.
  const Schema& schema_;
  RecordBatch* out_;
  Offsets offsets_;
  std::int64_t* copied_bytes_;
  BufferCursor at_;  ///< At the current node, until a child of it is walked.
  std::shared_ptr<Copies> copies_;
  bool changed_ = false;
};

}  // namespace

RecordBatch normalized(RecordBatch batch, std::int64_t* copied_bytes, Offsets offsets) {
  check_readable(batch, "normalized()");
  check_structure(batch);
  Normalizer(batch, &batch, offsets, copied_bytes).run();
  return batch;
}

}  // namespace crossdock::array
