#include "ipc/internal/starts_with.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "array/view_layout.h"
#include "core/bytes.h"

namespace crossdock::ipc {
namespace {

using array::BufferCursor;
using array::BufferKind;
using array::BufferView;
using array::LayoutNode;
using array::RecordBatch;
using array::TypeId;

bool same_bytes(const std::byte* a, const std::byte* b, std::int64_t n) noexcept {
  return n == 0 || std::memcmp(a, b, static_cast<std::size_t>(n)) == 0;
}

template <class T>
std::int64_t integer_at(const std::byte* bytes, std::int64_t i) noexcept {
  return load_once<T>(bytes + i * static_cast<std::int64_t>(sizeof(T)));
}

/// One of the two batches, with its position in the schema's preorder.
struct Side {
  explicit Side(const RecordBatch& given) : batch(given), cursor(given.variadic_counts) {}
  const std::byte* buffer(std::size_t b) const {
    return static_cast<const std::byte*>(batch.buffers[cursor.first() + b].data);
  }
  std::int64_t size(std::size_t b) const { return batch.buffers[cursor.first() + b].size; }
  bool valid(std::int64_t i) const noexcept {
    return validity == nullptr || (std::to_integer<int>(validity[i / 8]) >> (i % 8) & 1) != 0;
  }
  /// Returns the bytes of a view.
  ByteSpan view(std::int64_t i) const {
    const std::byte* header = buffer(1) + i * array::kViewSize;
    const auto length = load_once<std::int32_t>(header);
    if (length <= array::kMaxInline) return {header + 4, static_cast<std::size_t>(std::max(length, 0))};
    const auto number = load_once<std::uint32_t>(header + 8);
    const auto offset = load_once<std::int32_t>(header + 12);
    // The dictionary may come from another producer and may not have been checked as fully as this.
    if (number >= cursor.n_variadic() || offset < 0) return {};
    const BufferView& data = batch.buffers[cursor.end() - cursor.n_variadic() + number];
    if (data.size < static_cast<std::int64_t>(offset) + length) return {};
    return {static_cast<const std::byte*>(data.data) + offset, static_cast<std::size_t>(length)};
  }

  const RecordBatch& batch;
  BufferCursor cursor;
  const std::byte* validity = nullptr;
};

class Comparison {
 public:
  Comparison(const RecordBatch& whole, const RecordBatch& start) : a_(whole), b_(start) {}
  bool run() { return compare(b_.batch.num_rows, nullptr); }

 private:
  /// Compares the next node's first `n` elements. If they are run ends, `rows` points to the number of rows that the
  /// runs cover; else it is null.
  bool compare(std::int64_t n, const std::int64_t* rows) {
    const std::size_t i = node_++;
    const LayoutNode& layout = a_.batch.schema->nodes()[i];
    a_.cursor.enter(layout);
    b_.cursor.enter(layout);
    if (a_.batch.nodes[i].length < n || b_.batch.nodes[i].length < n) return false;
    if (!same_validity(layout, n)) return false;
    std::int64_t child_n = n * std::max(layout.fixed_size, 1);  // for fixed-size lists, structs and unions
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      if (!same_buffer(layout, b, n, rows, &child_n)) return false;
    }
    if (layout.id == TypeId::kDenseUnion) return compare_dense(layout, n);
    if (layout.id == TypeId::kRunEndEncoded) {
      // Compares as many runs as the shorter side has. Its last run may continue in the longer side.
      const std::int64_t runs = b_.batch.nodes[i + 1].length;
      return compare(runs, &n) && compare(runs, nullptr);
    }
    for (std::int32_t c = 0; c < layout.n_children; ++c) {
      if (!compare(child_n, nullptr)) return false;
    }
    return true;
  }

  bool same_validity(const LayoutNode& layout, std::int64_t n) {
    a_.validity = layout.type.has_validity() ? a_.buffer(0) : nullptr;
    b_.validity = layout.type.has_validity() ? b_.buffer(0) : nullptr;
    if (a_.validity == nullptr && b_.validity == nullptr) return true;
    for (std::int64_t i = 0; i < n; ++i) {
      if (a_.valid(i) != b_.valid(i)) return false;
    }
    return true;
  }

  bool same_buffer(const LayoutNode& layout, std::size_t b, std::int64_t n, const std::int64_t* rows,
                   std::int64_t* child_n) const {
    const BufferKind kind = layout.type.buffers[b];
    switch (kind) {
      case BufferKind::kValidity: return true;
      case BufferKind::kBits: return same_bits(b, n);
      case BufferKind::kFixed:
        if (rows != nullptr) return same_run_ends(layout.id, n, *rows);
        return same_elements(b, n, layout.type.width);
      case BufferKind::kOffsets32: return same_offsets<std::int32_t>(b, n, child_n);
      case BufferKind::kOffsets64: return same_offsets<std::int64_t>(b, n, child_n);
      case BufferKind::kBytes:
        return *child_n <= std::min(a_.size(b), b_.size(b)) && same_bytes(a_.buffer(b), b_.buffer(b), *child_n);
      case BufferKind::kViews: return same_views(n);
      case BufferKind::kListViewSizes32: return same_list_views<std::int32_t>(n, child_n);
      case BufferKind::kListViewSizes64: return same_list_views<std::int64_t>(n, child_n);
      default: return same_elements(b, n, array::element_width(kind, 0));
    }
  }

  bool same_bits(std::size_t b, std::int64_t n) const {
    const auto bit = [b](const Side& side, std::int64_t i) {
      return std::to_integer<int>(side.buffer(b)[i / 8]) >> (i % 8) & 1;
    };
    for (std::int64_t i = 0; i < n; ++i) {
      if (a_.valid(i) && bit(a_, i) != bit(b_, i)) return false;
    }
    return true;
  }

  /// Compares elements. Null elements may hold any value.
  bool same_elements(std::size_t b, std::int64_t n, std::int64_t width) const {
    const std::byte* const a_bytes = a_.buffer(b);
    const std::byte* const b_bytes = b_.buffer(b);
    if (a_.validity == nullptr) return same_bytes(a_bytes, b_bytes, n * width);
    for (std::int64_t i = 0; i < n; ++i) {
      if (a_.valid(i) && !same_bytes(a_bytes + i * width, b_bytes + i * width, width)) return false;
    }
    return true;
  }

  bool same_run_ends(TypeId type, std::int64_t n, std::int64_t rows) const {
    const auto end = [&](const Side& side, std::int64_t i) {
      std::int64_t found = 0;
      switch (type) {
        case TypeId::kInt16: found = integer_at<std::int16_t>(side.buffer(1), i); break;
        case TypeId::kInt32: found = integer_at<std::int32_t>(side.buffer(1), i); break;
        default: found = integer_at<std::int64_t>(side.buffer(1), i);
      }
      return std::min(found, rows);
    };
    for (std::int64_t i = 0; i < n; ++i) {
      if (end(a_, i) != end(b_, i)) return false;
    }
    return true;
  }

  /// Compares offsets, which begin at 0. The last one is the length of the data to compare. The producer may have
  /// changed it since it was checked.
  template <class Offset>
  bool same_offsets(std::size_t b, std::int64_t n, std::int64_t* pointed) const {
    *pointed = 0;
    if (n == 0) return true;
    *pointed = integer_at<Offset>(a_.buffer(b), n);
    return *pointed >= 0 && same_bytes(a_.buffer(b), b_.buffer(b), (n + 1) * static_cast<std::int64_t>(sizeof(Offset)));
  }

  bool same_views(std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) {
      if (a_.valid(i) && !std::ranges::equal(a_.view(i), b_.view(i))) return false;
    }
    return true;
  }

  template <class Offset>
  bool same_list_views(std::int64_t n, std::int64_t* pointed) const {
    *pointed = 0;
    if (n == 0) return true;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t size = integer_at<Offset>(a_.buffer(2), i);
      const std::int64_t offset = integer_at<Offset>(a_.buffer(1), i);
      if (size != integer_at<Offset>(b_.buffer(2), i) || offset != integer_at<Offset>(b_.buffer(1), i)) return false;
      if (size < 0 || offset < 0 || size > std::numeric_limits<std::int64_t>::max() - offset) return false;
      *pointed = std::max(*pointed, offset + size);
    }
    return true;
  }

  /// Compares each child up to the last element that is pointed to. Type ids and offsets are already known to be equal.
  bool compare_dense(const LayoutNode& layout, std::int64_t n) {
    const std::byte* const ids = a_.buffer(0);
    const std::byte* const offsets = a_.buffer(1);
    for (const std::int8_t code : layout.field->type.type_codes) {
      std::int64_t pointed = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (integer_at<std::int8_t>(ids, i) == code)
          pointed = std::max(pointed, integer_at<std::int32_t>(offsets, i) + 1);
      }
      if (!compare(pointed, nullptr)) return false;
    }
    return true;
  }

  Side a_;
  Side b_;
  std::size_t node_ = 0;
};

}  // namespace

bool starts_with(const array::RecordBatch& whole, const array::RecordBatch& start) {
  return Comparison(whole, start).run();
}

}  // namespace crossdock::ipc
