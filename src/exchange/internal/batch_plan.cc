#include "exchange/internal/batch_plan.h"

#include <algorithm>
#include <utility>

#include "array/same_memory.h"
#include "core/bytes.h"
#include "crossdock/exchange/batch.h"

namespace crossdock::exchange {
namespace {

using array::BufferKind;
using array::BufferView;
using array::LayoutNode;
using array::Node;
using array::RecordBatch;
using array::Schema;
using array::TypeId;

constexpr std::uint64_t kAlignment = 64;
constexpr std::int64_t kBitsPerByte = 8;

constexpr std::int64_t whole_bytes(std::int64_t bits) noexcept {
  return bits / kBitsPerByte + (bits % kBitsPerByte != 0);
}

/// Returns an address under which batches of the same memory are found.
const void* key_of(const RecordBatch& batch) noexcept {
  for (const BufferView& buffer : batch.buffers) {
    if (buffer.data != nullptr) return buffer.data;
  }
  return nullptr;
}

/// True if both are the same dictionary. Every import makes new dictionary objects, so a dictionary that columns share
/// is recognised by its memory.
bool same_dictionary(const RecordBatch& a, const RecordBatch& b) {
  if (&a == &b) return true;
  return (a.schema == b.schema || *a.schema == *b.schema) && array::same_memory(a, b) &&
         std::ranges::equal(a.dictionaries, b.dictionaries, [](const auto& x, const auto& y) {
           return x == y || (x != nullptr && y != nullptr && same_dictionary(*x, *y));
         });
}

}  // namespace

/// Cuts every node of one batch to the elements that it shows.
class BatchPlan::Walker {
 public:
  Walker(BatchPlan* plan, const RecordBatch& from, RecordBatch* made)
      : plan_(*plan), from_(from), schema_(*from.schema), made_(*made), at_(from.variadic_counts) {
    made_.schema = from.schema;
    made_.num_rows = from.num_rows;
    made_.custom_metadata = from.custom_metadata;
    made_.nodes.resize(from.nodes.size());
    made_.buffers.resize(from.buffers.size());
    made_.variadic_counts = from.variadic_counts;
    if (!plan_.to_host_) made_.variadic_sizes.resize(from.variadic_counts.size());
    made_.dictionaries.resize(from.dictionaries.size());
  }

  void run() {
    std::size_t node = 0;
    while (node < schema_.nodes().size()) node = walk(node, 0, from_.num_rows);
    for (std::size_t slot = 0; slot < from_.dictionaries.size(); ++slot) {
      if (from_.dictionaries[slot] != nullptr) made_.dictionaries[slot] = plan_.dictionary(*from_.dictionaries[slot]);
    }
  }

 private:
  void add(std::size_t buffer, std::int64_t from, std::int64_t size) {
    const void* data = from_.buffers[buffer].data;
    if (size == 0 || data == nullptr) return;
    made_.buffers[buffer].size = size;
    plan_.parts_.push_back({static_cast<const std::byte*>(data) + from, static_cast<std::uint64_t>(size),
                            &made_.buffers[buffer].data, plan_.from_host_});
  }

  /// Keeps `length` elements from element `start` of the node on (not counting its own offset). Returns the index of
  /// the node after its subtree.
  std::size_t walk(std::size_t index, std::int64_t start, std::int64_t length) {
    const LayoutNode& layout = schema_.nodes()[index];
    const Node& old = from_.nodes[index];
    at_.enter(layout);
    const std::int64_t base = old.offset + start;
    const std::int64_t nulls = nulls_of(layout, old, start, length);
    const std::int64_t kept = length == 0 ? 0 : kept_offset(layout, base, nulls);
    made_.nodes[index] = {length, nulls, kept};
    if (length > 0) add_buffers(layout, base - kept, kept + length, nulls);
    if (layout.type.variadic) add_variadic(length);
    std::size_t next = index + 1;
    for (std::int32_t i = 0; i < layout.n_children; ++i) {
      switch (length == 0 ? TypeId::kNull : layout.id) {
        case TypeId::kNull: next = walk(next, 0, 0); break;
        case TypeId::kStruct:
        case TypeId::kSparseUnion: next = walk(next, base - kept, kept + length); break;
        case TypeId::kFixedSizeList:
          next = walk(next, (base - kept) * layout.fixed_size, (kept + length) * layout.fixed_size);
          break;
        default: next = walk(next, 0, from_.nodes[next].length);
      }
    }
    return next;
  }

  static std::int64_t nulls_of(const LayoutNode& layout, const Node& old, std::int64_t start, std::int64_t length) {
    if (layout.id == TypeId::kNull) return length;
    if (length == 0 || !layout.type.has_validity() || old.null_count == 0) return 0;
    return start == 0 && length == old.length ? old.null_count : -1;
  }

  /// Returns the offset that must stay, because elements of bitmaps begin within bytes and run ends count from the
  /// first element.
  std::int64_t kept_offset(const LayoutNode& layout, std::int64_t base, std::int64_t nulls) const {
    if (layout.id == TypeId::kRunEndEncoded) return base;
    bool bits = layout.id == TypeId::kBool;
    if (layout.type.has_validity() && nulls != 0) bits = bits || from_.buffers[at_.first()].data != nullptr;
    return bits ? base % kBitsPerByte : 0;
  }

  void add_buffers(const LayoutNode& layout, std::int64_t first, std::int64_t n, std::int64_t nulls) {
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const std::size_t buffer = at_.first() + b;
      const BufferKind kind = layout.type.buffers[b];
      switch (kind) {
        case BufferKind::kValidity:
          if (nulls != 0) add(buffer, first / kBitsPerByte, whole_bytes(n));
          break;
        case BufferKind::kBits: add(buffer, first / kBitsPerByte, whole_bytes(n)); break;
        case BufferKind::kOffsets32: add(buffer, first * 4, (n + 1) * 4); break;
        case BufferKind::kOffsets64: add(buffer, first * 8, (n + 1) * 8); break;
        case BufferKind::kBytes: add(buffer, 0, from_.buffers[buffer].size); break;
        default: {
          const std::int64_t width = array::element_width(kind, layout.type.width);
          add(buffer, first * width, n * width);
        }
      }
    }
  }

  void add_variadic(std::int64_t length) {
    const std::size_t first = at_.end() - at_.n_variadic();
    const std::size_t slot = view_++;
    if (length > 0) {
      for (std::size_t buffer = first; buffer < at_.end(); ++buffer) add(buffer, 0, from_.buffers[buffer].size);
    }
    if (plan_.to_host_ || at_.n_variadic() == 0) return;
    const std::uint64_t size = at_.n_variadic() * sizeof(std::int64_t);
    const void** address = &made_.variadic_sizes[slot];
    if (length > 0 && !plan_.from_host_ && !from_.variadic_sizes.empty()) {
      plan_.parts_.push_back({from_.variadic_sizes[slot], size, address, false});
      return;
    }
    std::vector<std::int64_t>& numbers = plan_.numbers_.emplace_back();
    for (std::size_t buffer = first; buffer < at_.end(); ++buffer) numbers.push_back(made_.buffers[buffer].size);
    plan_.parts_.push_back({numbers.data(), size, address, true});
  }

  BatchPlan& plan_;
  const RecordBatch& from_;
  const Schema& schema_;
  RecordBatch& made_;
  array::BufferCursor at_;  ///< At the current node, until a child of it is walked.
  std::size_t view_ = 0;    ///< Nodes of view types so far.
};

BatchPlan::BatchPlan(std::shared_ptr<const RecordBatch> from, bool to_host)
    : from_(std::move(from)), from_host_(from_->host_readable()), to_host_(to_host) {
  plan(*from_, &batch_);
}

void BatchPlan::plan(const RecordBatch& from, RecordBatch* made) { Walker(this, from, made).run(); }

std::shared_ptr<RecordBatch> BatchPlan::dictionary(const RecordBatch& from) {
  const void* key = key_of(from);
  const auto [first, last] = dictionaries_.equal_range(key);
  for (auto known = first; known != last; ++known) {
    if (same_dictionary(*known->second.from, from)) return known->second.made;
  }
  auto made = std::make_shared<RecordBatch>();
  plan(from, made.get());
  dictionaries_.emplace(key, Known{&from, made});
  return made;
}

std::size_t BatchPlan::lay_out(bool gather) {
  const auto small = [](const Part& part) { return part.on_host && part.size < static_cast<std::uint64_t>(kGathered); };
  const auto rest = gather ? std::stable_partition(parts_.begin(), parts_.end(), small) : parts_.begin();
  const auto n_gathered = static_cast<std::size_t>(rest - parts_.begin());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (i == n_gathered) gathered_bytes_ = bytes_;
    parts_[i].at = bytes_;
    bytes_ = align_up(bytes_ + parts_[i].size, kAlignment);
  }
  if (n_gathered == parts_.size()) gathered_bytes_ = bytes_;
  return n_gathered;
}

RecordBatch BatchPlan::take() noexcept {
  dictionaries_.clear();  // The plan may live on as owner of the source: it must not keep the new batches alive.
  return std::move(batch_);
}

std::vector<RecordBatch*> BatchPlan::made() {
  std::vector<RecordBatch*> all{&batch_};
  for (const auto& [key, known] : dictionaries_) all.push_back(known.made.get());
  return all;
}

}  // namespace crossdock::exchange
