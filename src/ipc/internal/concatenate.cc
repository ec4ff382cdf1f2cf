#include "ipc/internal/concatenate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "array/view_layout.h"
#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::ipc {
namespace {

using array::BufferCursor;
using array::BufferKind;
using array::BufferView;
using array::LayoutNode;
using array::Node;
using array::RecordBatch;
using array::TypeId;

struct FreeAligned {
  void operator()(std::byte* memory) const noexcept { ::operator delete (memory, std::align_val_t{kBufferAlignment}); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

/// The owner of the new batch: its own buffers, and the parts, into whose memory its views still point.
struct Memory {
  std::vector<AlignedBytes> blocks;
  std::vector<std::shared_ptr<const void>> parts;
};

const std::byte* bytes_of(const BufferView& view) noexcept { return static_cast<const std::byte*>(view.data); }

bool bit(const std::byte* bits, std::int64_t i) noexcept {
  return (std::to_integer<int>(bits[i / 8]) >> (i % 8) & 1) != 0;
}
void set_bit(std::byte* bits, std::int64_t i) noexcept { bits[i / 8] |= static_cast<std::byte>(1 << (i % 8)); }

template <class T>
T element(const std::byte* bytes, std::int64_t i) noexcept {
  return load_le<T>(bytes + i * static_cast<std::int64_t>(sizeof(T)));
}
template <class T>
void put(std::byte* bytes, std::int64_t i, T value) noexcept {
  store_le<T>(bytes + i * static_cast<std::int64_t>(sizeof(T)), value);
}

class Concatenation {
 public:
  explicit Concatenation(const std::vector<const RecordBatch*>& given) : memory_(std::make_shared<Memory>()) {
    for (const RecordBatch* part : given) {
      std::int64_t copied = 0;
      parts_.push_back(array::normalized(*part, &copied, array::Offsets::kFromZero));
      memory_->parts.push_back(parts_.back().owner);
    }
    for (const RecordBatch& part : parts_) cursors_.emplace_back(part.variadic_counts);
  }

  RecordBatch run() {
    const array::Schema& schema = *parts_.front().schema;
    for (const RecordBatch& part : parts_) {
      if (!checked_add(out_.num_rows, part.num_rows, &out_.num_rows)) fail(schema.nodes().front(), "its length");
    }
    while (node_ < schema.nodes().size()) add_node(nullptr);
    out_.schema = parts_.front().schema;
    out_.dictionaries = parts_.back().dictionaries;
    out_.owner = memory_;
    return std::move(out_);
  }

 private:
  using Lengths = std::vector<std::int64_t>;

  [[noreturn]] static void fail(const LayoutNode& layout, const char* what) {
    throw InvalidDataError("field \"" + excerpt(layout.field->name) + "\" (" + array::type_name(layout.field->type) +
                           "): concatenated, " + what + " exceeds the range of the type");
  }

  /// `run_lengths` are the lengths of the parts of the parent, if this node is its run ends.
  void add_node(const Lengths* run_lengths) {
    const std::size_t i = node_++;
    const LayoutNode& layout = parts_.front().schema->nodes()[i];
    Node node;
    Lengths lengths;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      cursors_[p].enter(layout);
      const Node& part = parts_[p].nodes[i];
      lengths.push_back(part.length);
      if (!checked_add(node.length, part.length, &node.length)) fail(layout, "its length");
      node.null_count += part.null_count;
    }
    out_.nodes.push_back(node);
    const std::vector<BufferCursor> here = cursors_;  // saved, because children advance the cursors
    const std::size_t first = out_.buffers.size();
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      out_.buffers.emplace_back();  // added before the buffers of children
      add_buffer(layout, b, here, lengths, node, run_lengths);
    }
    if (layout.type.variadic) add_variadic(here);
    std::vector<std::size_t> child_nodes;
    for (std::int32_t c = 0; c < layout.n_children; ++c) {
      child_nodes.push_back(node_);
      add_node(layout.id == TypeId::kRunEndEncoded && c == 0 ? &lengths : nullptr);
    }
    // Offsets into children can only be written once the children's lengths are known.
    if (layout.id == TypeId::kDenseUnion) add_union_offsets(layout, here, lengths, child_nodes, first);
    if (layout.id == TypeId::kListView) add_list_views<std::int32_t>(layout, lengths, child_nodes, first);
    if (layout.id == TypeId::kLargeListView) add_list_views<std::int64_t>(layout, lengths, child_nodes, first);
  }

  void add_buffer(const LayoutNode& layout, std::size_t b, const std::vector<BufferCursor>& here,
                  const Lengths& lengths, const Node& node, const Lengths* run_lengths) {
    const BufferKind kind = layout.type.buffers[b];
    switch (kind) {
      case BufferKind::kValidity:
        if (node.null_count != 0) add_bits(b, here, lengths, node.length);
        return;
      case BufferKind::kBits: return add_bits(b, here, lengths, node.length);
      case BufferKind::kFixed:
        if (run_lengths != nullptr) return add_run_ends(layout, b, here, lengths, node.length, *run_lengths);
        return add_elements(layout, layout.type.width, b, here, lengths, node.length);
      case BufferKind::kOffsets32: return add_offsets<std::int32_t>(layout, b, here, lengths, node.length);
      case BufferKind::kOffsets64: return add_offsets<std::int64_t>(layout, b, here, lengths, node.length);
      case BufferKind::kBytes: return add_all(layout, b, here);
      case BufferKind::kViews: return add_views(layout, b, here, lengths, node.length);
      default: return add_elements(layout, array::element_width(kind, 0), b, here, lengths, node.length);
    }
  }

  const BufferView& buffer(std::size_t part, std::size_t b, const std::vector<BufferCursor>& here) const {
    return parts_[part].buffers[here[part].first() + b];
  }

  /// Allocates zeroed memory as the buffer that is being added.
  std::byte* allocate_buffer(std::int64_t size) {
    if (size == 0) return nullptr;
    AlignedBytes block(
        static_cast<std::byte*>(::operator new (static_cast<std::size_t>(size), std::align_val_t{kBufferAlignment})));
    std::memset(block.get(), 0, static_cast<std::size_t>(size));
    std::byte* const data = block.get();
    memory_->blocks.push_back(std::move(block));
    out_.buffers.back() = {data, size};
    return data;
  }

  /// An absent validity bitmap counts as all ones.
  void add_bits(std::size_t b, const std::vector<BufferCursor>& here, const Lengths& lengths, std::int64_t length) {
    std::byte* const to = allocate_buffer(length / 8 + (length % 8 != 0));
    std::int64_t end = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::byte* from = bytes_of(buffer(p, b, here));
      for (std::int64_t i = 0; i < lengths[p]; ++i, ++end) {
        if (from == nullptr || bit(from, i)) set_bit(to, end);
      }
    }
  }

  void add_elements(const LayoutNode& layout, std::int64_t width, std::size_t b, const std::vector<BufferCursor>& here,
                    const Lengths& lengths, std::int64_t length) {
    std::int64_t size = 0;
    if (!checked_multiply(length, width, &size)) fail(layout, "its size");
    std::byte* to = allocate_buffer(size);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const auto n = static_cast<std::size_t>(lengths[p] * width);
      if (n == 0) continue;
      std::memcpy(to, buffer(p, b, here).data, n);
      to += n;
    }
  }

  void add_all(const LayoutNode& layout, std::size_t b, const std::vector<BufferCursor>& here) {
    std::int64_t size = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (!checked_add(size, buffer(p, b, here).size, &size)) fail(layout, "its size");
    }
    std::byte* to = allocate_buffer(size);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const BufferView& from = buffer(p, b, here);
      if (from.size == 0) continue;
      std::memcpy(to, from.data, static_cast<std::size_t>(from.size));
      to += from.size;
    }
  }

  /// Normalized offsets begin at 0 and end at the length of the data that they point into.
  template <class Offset>
  void add_offsets(const LayoutNode& layout, std::size_t b, const std::vector<BufferCursor>& here,
                   const Lengths& lengths, std::int64_t length) {
    using Unsigned = std::make_unsigned_t<Offset>;
    std::byte* const to = allocate_buffer((length + 1) * static_cast<std::int64_t>(sizeof(Offset)));
    std::int64_t end = 0;
    std::int64_t base = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (lengths[p] == 0) continue;
      const std::byte* from = bytes_of(buffer(p, b, here));
      const std::int64_t last = load_once<Offset>(from + lengths[p] * static_cast<std::int64_t>(sizeof(Offset)));
      if (last < 0 || base > std::numeric_limits<Offset>::max() - last) fail(layout, "its last offset");
      for (std::int64_t i = 1; i <= lengths[p]; ++i) {
        // Unsigned arithmetic: offsets before the last aren't checked here, and a sum with an invalid one must not be
        // undefined.
        put<Offset>(to, ++end, static_cast<Offset>(static_cast<Unsigned>(base) + element<Unsigned>(from, i)));
      }
      base += last;
    }
  }

  void add_run_ends(const LayoutNode& layout, std::size_t b, const std::vector<BufferCursor>& here,
                    const Lengths& lengths, std::int64_t length, const Lengths& run_lengths) {
    const auto all = [&]<class End>(End) {
      std::byte* const to = allocate_buffer(length * static_cast<std::int64_t>(sizeof(End)));
      std::int64_t end = 0;
      std::int64_t base = 0;
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        if (base > std::numeric_limits<End>::max() - run_lengths[p]) fail(layout, "its last run end");
        const std::byte* from = bytes_of(buffer(p, b, here));
        for (std::int64_t i = 0; i < lengths[p]; ++i) {
          // The last run of a part may reach beyond the elements that the part shows.
          const std::int64_t run_end = std::clamp<std::int64_t>(element<End>(from, i), 0, run_lengths[p]);
          put<End>(to, end++, static_cast<End>(base + run_end));
        }
        base += run_lengths[p];
      }
    };
    if (layout.id == TypeId::kInt16) return all(std::int16_t{});
    if (layout.id == TypeId::kInt32) return all(std::int32_t{});
    all(std::int64_t{});
  }

  void add_views(const LayoutNode& layout, std::size_t b, const std::vector<BufferCursor>& here, const Lengths& lengths,
                 std::int64_t length) {
    add_elements(layout, array::kViewSize, b, here, lengths, length);
    auto* to = const_cast<std::byte*>(bytes_of(out_.buffers.back()));
    std::size_t base = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::int64_t i = 0; i < lengths[p]; ++i, to += array::kViewSize) {
        if (load_le<std::int32_t>(to) <= array::kMaxInline) continue;
        // Unsigned arithmetic: a null view may have any value.
        store_le(to + 8, static_cast<std::uint32_t>(load_le<std::uint32_t>(to + 8) + base));
      }
      base += here[p].n_variadic();
    }
    if (base > static_cast<std::size_t>(array::kMaxBuffers)) fail(layout, "its number of buffers");
  }

  void add_variadic(const std::vector<BufferCursor>& here) {
    std::int64_t count = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::size_t b = here[p].end() - here[p].n_variadic(); b < here[p].end(); ++b, ++count) {
        out_.buffers.push_back(parts_[p].buffers[b]);
      }
    }
    out_.variadic_counts.push_back(count);
  }

  void add_union_offsets(const LayoutNode& layout, const std::vector<BufferCursor>& here, const Lengths& lengths,
                         const std::vector<std::size_t>& child_nodes, std::size_t first) {
    const std::vector<std::int8_t>& codes = layout.field->type.type_codes;
    auto* to = const_cast<std::byte*>(bytes_of(out_.buffers[first + 1]));
    std::vector<std::int64_t> bases(256);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::byte* ids = bytes_of(buffer(p, 0, here));
      for (std::int64_t i = 0; i < lengths[p]; ++i, to += sizeof(std::int32_t)) {
        const auto base = static_cast<std::uint32_t>(bases[std::to_integer<std::uint8_t>(ids[i])]);
        store_le(to, load_le<std::uint32_t>(to) + base);
      }
      for (std::size_t c = 0; c < codes.size(); ++c) {
        std::int64_t& base = bases[static_cast<std::uint8_t>(codes[c])];
        base += parts_[p].nodes[child_nodes[c]].length;
        if (base > std::numeric_limits<std::int32_t>::max()) fail(layout, "a child's length");
      }
    }
  }

  template <class Offset>
  void add_list_views(const LayoutNode& layout, const Lengths& lengths, const std::vector<std::size_t>& child_nodes,
                      std::size_t first) {
    auto* to = const_cast<std::byte*>(bytes_of(out_.buffers[first + 1]));
    std::int64_t base = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::int64_t i = 0; i < lengths[p]; ++i, to += sizeof(Offset)) {
        using Unsigned = std::make_unsigned_t<Offset>;
        store_le(to, static_cast<Unsigned>(load_le<Unsigned>(to) + static_cast<Unsigned>(base)));
      }
      base += parts_[p].nodes[child_nodes[0]].length;
      if (base > std::numeric_limits<Offset>::max()) fail(layout, "its child's length");
    }
  }

  std::vector<RecordBatch> parts_;
  std::vector<BufferCursor> cursors_;
  std::size_t node_ = 0;
  std::shared_ptr<Memory> memory_;
  RecordBatch out_;
};

}  // namespace

array::RecordBatch concatenate(const std::vector<const array::RecordBatch*>& parts) {
  return Concatenation(parts).run();
}

}  // namespace crossdock::ipc
