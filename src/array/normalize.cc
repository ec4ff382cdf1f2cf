#include <new>
#include <type_traits>

#include "bits.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/bytes.h"
#include "crossdock/core/error.h"
#include "node_path.h"
#include "text.h"

namespace crossdock::array {
namespace {

constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, kAlignment); }
};

/// The owner of a batch some of whose buffers are copies: keeps them, and all the rest of the batch.
struct Copies {
  std::shared_ptr<const void> rest;
  std::vector<std::unique_ptr<std::byte, AlignedDelete>> buffers;
};

/// Rewrites a batch in place, or, without an `out`, only finds out whether there is anything to rewrite.
class Normalizer {
 public:
  Normalizer(const RecordBatch& in, RecordBatch* out, Offsets offsets, std::int64_t* copied_bytes)
      : in_(in), schema_(*in.schema), out_(out), offsets_(offsets), copied_bytes_(copied_bytes) {}

  /// True if something changed, or would.
  bool run() {
    std::size_t node = 0;
    while (node < schema_.nodes().size()) node = walk(node, 0, in_.num_rows);
    for (std::size_t slot = 0; slot < in_.dictionaries.size(); ++slot) normalize_dictionary(slot);
    if (copies_ != nullptr) {
      copies_->rest = std::move(out_->owner);
      out_->owner = std::move(copies_);
    }
    return changed_;
  }

 private:
  [[noreturn]] void fail(std::size_t node, const std::string& what) const {
    throw InvalidDataError(in_field(node_path(schema_, node)) + ": " + what);
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

  /// Memory of the batch's own in the place of a buffer.
  std::byte* make_copy(std::size_t buffer, std::int64_t size) {
    if (copies_ == nullptr) copies_ = std::make_shared<Copies>();
    auto* copy = static_cast<std::byte*>(
        ::operator new(align_up(static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(kAlignment)), kAlignment));
    std::unique_ptr<std::byte, AlignedDelete> owned(copy);
    copies_->buffers.push_back(std::move(owned));
    out_->buffers[buffer] = {copy, size};
    return copy;
  }

  std::int64_t null_count(std::size_t node, std::int64_t start, std::int64_t length) const {
    const LayoutNode& layout = schema_.nodes()[node];
    if (layout.id == TypeId::kNull) return length;
    const Node& old = in_.nodes[node];
    const BufferView& validity = in_.buffers[static_cast<std::size_t>(layout.first_buffer)];
    if (old.null_count == 0 || validity.data == nullptr) return 0;
    if (old.null_count > 0 && start == 0 && length == old.length) return old.null_count;
    return length - count_bits(static_cast<const std::byte*>(validity.data), old.offset + start, length);
  }

  /// What the offsets of a node point into: elements of its child, or bytes.
  struct Range {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };

  /// Points at the offsets needed, or writes them anew from 0.
  template <typename Offset>
  Range set_offsets(std::size_t node, std::size_t buffer, std::int64_t start, std::int64_t length) {
    const BufferView& old = in_.buffers[buffer];
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(Offset));
    const auto* data = static_cast<const std::byte*>(old.data) + start * kWidth;
    const auto first = load_le<Offset>(data);
    const auto last = load_le<Offset>(data + length * kWidth);
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
        // Offsets between the ends aren't checked here; a wild one stays wild, and its sum must not be undefined.
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

  /// Shows `length` elements from element `start` of the node (not counting its own offset). Returns the node after its
  /// subtree.
  std::size_t walk(std::size_t node, std::int64_t start, std::int64_t length) {
    const LayoutNode& layout = schema_.nodes()[node];
    const Node old = in_.nodes[node];
    if (start > old.length || length > old.length - start) {
      fail(node, "length " + std::to_string(old.length) + ", but its parent needs " + std::to_string(length) +
                     " elements from element " + std::to_string(start));
    }
    const std::int64_t base = old.offset + start;
    const std::int64_t nulls = null_count(node, start, length);
    const auto first_buffer = static_cast<std::size_t>(layout.first_buffer);
    Range range;
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const std::size_t buffer = first_buffer + b;
      const BufferView view = in_.buffers[buffer];
      const auto* data = static_cast<const std::byte*>(view.data);
      if (length == 0) {
        set_buffer(buffer, nullptr, 0);
        continue;
      }
      switch (layout.type.buffers[b]) {
        case BufferKind::kValidity: set_bits(buffer, view, base, nulls == 0 ? 0 : length); break;
        case BufferKind::kBits: set_bits(buffer, view, base, length); break;
        case BufferKind::kFixed: set_buffer(buffer, data + base * layout.type.width, length * layout.type.width); break;
        case BufferKind::kOffsets32: range = set_offsets<std::int32_t>(node, buffer, base, length); break;
        case BufferKind::kOffsets64: range = set_offsets<std::int64_t>(node, buffer, base, length); break;
        case BufferKind::kBytes: set_bytes(node, buffer, range); break;
      }
    }
    set_node(node, length, nulls);

    std::int64_t child_start = range.first;
    std::int64_t child_length = range.last - range.first;
    if (layout.id == TypeId::kStruct) {
      child_start = base;
      child_length = length;
    } else if (layout.id == TypeId::kFixedSizeList) {
      child_start = base * layout.fixed_size;
      child_length = length * layout.fixed_size;
    }
    if (length == 0) child_start = 0;
    std::size_t next = node + 1;
    for (std::int32_t i = 0; i < layout.n_children; ++i) next = walk(next, child_start, child_length);
    return next;
  }

  void normalize_dictionary(std::size_t slot) {
    const std::shared_ptr<const RecordBatch>& dictionary = in_.dictionaries[slot];
    // Kept where it is: who sends dictionaries knows them by their addresses.
    if (dictionary == nullptr || !Normalizer(*dictionary, nullptr, Offsets::kKeep, nullptr).run()) return;
    changed_ = true;
    if (out_ == nullptr) return;
    auto changed = std::make_shared<RecordBatch>(*dictionary);
    Normalizer(*changed, changed.get(), Offsets::kKeep, copied_bytes_).run();
    out_->dictionaries[slot] = std::move(changed);
  }

  const RecordBatch& in_;  ///< The same object as `*out_`, if that is there.
  const Schema& schema_;
  RecordBatch* out_;
  Offsets offsets_;
  std::int64_t* copied_bytes_;
  std::shared_ptr<Copies> copies_;
  bool changed_ = false;
};

}  // namespace

RecordBatch normalized(RecordBatch batch, std::int64_t* copied_bytes, Offsets offsets) {
  if (!batch.host_readable()) {
    throw InvalidArgumentError(
        "normalized() needs host memory without an event to wait for; the batch is on device type " +
        std::to_string(batch.device_type));
  }
  check_structure(batch);
  Normalizer(batch, &batch, offsets, copied_bytes).run();
  return batch;
}

}  // namespace crossdock::array
