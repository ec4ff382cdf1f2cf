#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "array/internal/check_structure.h"
#include "array/internal/exported.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

/// Target of the pointers of empty buffers on the host: consumers may read offsets[0] of an array without elements.
alignas(64) constexpr std::byte kZeros[64] = {};

/// The head of the one allocation behind an exported batch; the ArrowArrays, their origins, pointers to children and
/// pointers to buffers follow. Lives until the last array that points into it is released.
struct Block {
  Block(RecordBatch&& exported, std::int64_t arrays) noexcept : live(arrays), batch(std::move(exported)) {}

  std::atomic<std::int64_t> live;  ///< Arrays not released yet, with the root and dictionaries.
  RecordBatch batch;
};

/// The target of `private_data` of one exported array.
struct Origin {
  Block* block;
  const BufferView* views;  ///< The array's buffers in the block's batch; null if absent, as for the root.
  std::int64_t n_views;     ///< -1 for the root.
};

constexpr std::int64_t kRoot = -1;

void destroy(Block* block) noexcept {
  block->~Block();
  ::operator delete(block);
}

void release_array(ArrowArray* array) noexcept;

const Origin& origin_of(const ArrowArray& array) noexcept { return *static_cast<const Origin*>(array.private_data); }

/// Marks an array released, and all its descendants that weren't moved out. Returns the number of released arrays of
/// the block.
std::int64_t drop(ArrowArray* array, const Block* block) {
  const auto drop_member = [block](ArrowArray* member) -> std::int64_t {
    if (member->release == nullptr) return 0;  // moved out: its new owner releases it
    if (member->release != release_array || origin_of(*member).block != block) {
      member->release(member);  // a consumer has replaced it by another array
      return 0;
    }
    if (member->n_children == 0 && member->dictionary == nullptr) {
      member->release = nullptr;
      return 1;
    }
    return drop(member, block);
  };
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < array->n_children; ++i) count += drop_member(array->children[i]);
  if (array->dictionary != nullptr) count += drop_member(array->dictionary);
  array->release = nullptr;
  return count;
}

void release_array(ArrowArray* array) noexcept {
  if (array == nullptr || array->release == nullptr) return;
  Block* const block = origin_of(*array).block;
  const std::int64_t count = drop(array, block);
  // If no other thread holds an array of the block, no race is possible: the common case needs no atomic write.
  if (block->live.load(std::memory_order_acquire) == count ||
      block->live.fetch_sub(count, std::memory_order_acq_rel) == count) {
    destroy(block);
  }
}

struct Totals {
  std::size_t arrays = 0;
  std::size_t buffers = 0;
  std::size_t sizes = 0;  ///< Sizes of variadic buffers.
};

void check_counts(const RecordBatch& batch) {
  if (batch.schema == nullptr) throw InvalidDataError("top level: the batch has no schema");
  if (!batch.counts_fit()) throw InvalidDataError("top level" + counts_message(batch));
}

/// Counts arrays, buffers and sizes. `batch` is null for a missing dictionary, which counts as an empty one of the
/// schema.
void count(const RecordBatch* batch, const Schema& schema, Totals* totals) {
  totals->arrays += schema.nodes().size();
  // A view's array has one more buffer: the sizes of its variadic ones.
  const auto n_fixed = static_cast<std::size_t>(schema.n_buffers());
  totals->buffers += n_fixed + static_cast<std::size_t>(schema.n_variadic());
  if (batch != nullptr) {
    totals->buffers += batch->buffers.size() - n_fixed;
    if (batch->variadic_sizes.empty()) totals->sizes += batch->buffers.size() - n_fixed;
  }
  for (std::size_t slot = 0; slot < schema.dictionaries().size(); ++slot) {
    const Schema& values = *schema.dictionaries()[slot].values;
    const RecordBatch* dictionary = batch != nullptr ? batch->dictionaries[slot].get() : nullptr;
    if (dictionary != nullptr) {
      check_counts(*dictionary);
      if (dictionary->device != batch->device) {
        throw InvalidDataError("dictionary " + std::to_string(schema.dictionaries()[slot].id) + ": it is on " +
                               device::to_string(dictionary->device) + ", but its batch is on " +
                               device::to_string(batch->device));
      }
      if (!is_dictionary_of(*dictionary, schema.dictionaries()[slot])) {
        throw InvalidDataError("dictionary " + std::to_string(schema.dictionaries()[slot].id) +
                               ": its values are not of the schema's type, " + type_name(values.fields().front().type));
      }
    }
    count(dictionary, values, totals);
  }
}

/// Fills the parts of a block, each from its beginning.
struct Writer {
  Block* block;
  ArrowArray* arrays;
  Origin* origins;
  ArrowArray** pointers;
  const void** buffers;
  std::int64_t* sizes;
  bool host;

  /// Takes the first `n` that are left of a part.
  template <typename T>
  static T* take(T** part, std::size_t n) noexcept {
    return std::exchange(*part, *part + n);
  }

  Origin* take_origin(const BufferView* views, std::int64_t n_views) noexcept {
    return new (take(&origins, 1)) Origin{block, views, n_views};
  }

  /// Writes all nodes of a batch, and the pointers to its columns to `tops`.
  void write(const RecordBatch* batch, const Schema& schema, ArrowArray** tops) noexcept {
    struct Frame {
      ArrowArray** next;
      std::int64_t left;
    };
    Frame frames[kMaxDepth + 1];
    int depth = 0;
    frames[0] = {tops, static_cast<std::int64_t>(schema.fields().size())};
    const std::size_t n = schema.nodes().size();
    BufferCursor at(batch != nullptr ? std::span<const std::int64_t>(batch->variadic_counts)
                                     : std::span<const std::int64_t>());
    const void* const* known_sizes =
        batch != nullptr && !batch->variadic_sizes.empty() ? batch->variadic_sizes.data() : nullptr;
    for (std::size_t i = 0; i < n; ++i) {
      while (frames[depth].left == 0) --depth;
      --frames[depth].left;
      const LayoutNode& layout = schema.nodes()[i];
      ArrowArray* array = take(&arrays, 1);
      *frames[depth].next++ = array;  // NOLINT(clang-analyzer-core.NullDereference): null only where there are no nodes
      if (batch != nullptr) {
        at.enter(layout);
        write_one(batch->nodes[i], batch->buffers.data() + at.first(), at.n_variadic(), layout, array);
        if (layout.type.variadic) {
          array->buffers[array->n_buffers - 1] =
              known_sizes != nullptr ? *known_sizes++
                                     : write_sizes(batch->buffers.data() + at.end() - at.n_variadic(), at.n_variadic());
        }
      } else {
        write_one(Node{}, nullptr, 0, layout, array);
      }
      if (layout.n_children > 0) {
        array->children = take(&pointers, static_cast<std::size_t>(layout.n_children));
        frames[++depth] = {array->children, layout.n_children};
      }
      if (layout.dictionary_slot >= 0) write_dictionary(batch, schema, layout, array);
    }
  }

  /// `views` are the node's buffers, or null for an empty node. The last `n_variadic` of them are variadic.
  void write_one(const Node& node, const BufferView* views, std::size_t n_variadic, const LayoutNode& layout,
                 ArrowArray* array) noexcept {
    const std::size_t n_views = layout.type.n_buffers + n_variadic;
    const std::size_t n_buffers = n_views + (layout.type.variadic ? 1 : 0);
    const void** own = take(&buffers, n_buffers);
    const bool has_validity = layout.type.has_validity();
    for (std::size_t b = 0; b < n_views; ++b) {
      const BufferView view = views != nullptr ? views[b] : BufferView{};
      // An absent validity buffer, which is always the first, is a null pointer. Others are never null on the host.
      const void* empty = !host ? view.data : b == 0 && has_validity ? nullptr : kZeros;
      own[b] = view.size != 0 && view.data != nullptr ? view.data : empty;
    }
    if (layout.type.variadic) own[n_views] = host ? kZeros : nullptr;  // for the caller to fill in
    std::int64_t null_count = node.null_count;
    if (layout.id == TypeId::kNull) {
      null_count = node.length;
    } else if (!has_validity || own[0] == nullptr) {
      null_count = 0;
    }
    array->length = node.length;
    array->null_count = null_count;
    array->offset = node.offset;
    array->n_buffers = static_cast<std::int64_t>(n_buffers);
    array->n_children = layout.n_children;
    array->buffers = n_buffers > 0 ? own : nullptr;
    array->children = nullptr;
    array->dictionary = nullptr;
    array->release = release_array;
    array->private_data = take_origin(views, static_cast<std::int64_t>(n_views));
  }

  const void* write_sizes(const BufferView* variadic, std::size_t n) noexcept {
    if (n == 0) return host ? kZeros : nullptr;
    std::int64_t* const own = take(&sizes, n);
    for (std::size_t i = 0; i < n; ++i) own[i] = variadic[i].data != nullptr ? variadic[i].size : 0;
    return own;
  }

  void write_dictionary(const RecordBatch* batch, const Schema& schema, const LayoutNode& layout,
                        ArrowArray* array) noexcept {
    const auto slot = static_cast<std::size_t>(layout.dictionary_slot);
    const RecordBatch* dictionary = batch != nullptr ? batch->dictionaries[slot].get() : nullptr;
    write(dictionary, *schema.dictionaries()[slot].values, &array->dictionary);
  }
};

/// Takes memory for `n` objects from `*next`.
template <typename T>
T* part(std::byte** next, std::size_t n) noexcept {
  T* const taken = reinterpret_cast<T*>(*next);
  *next = reinterpret_cast<std::byte*>(taken + n);
  return taken;
}

}  // namespace

void export_batch(RecordBatch batch, ArrowDeviceArray* out) {
  *out = ArrowDeviceArray{};
  batch.check_usual_context("Arrow");
  check_counts(batch);
  Totals totals;
  count(&batch, *batch.schema, &totals);

  if (batch.device.type == device::DeviceType::kCpu && !batch.ready()) {
    throw InvalidArgumentError("work" + (batch.queue ? " of " + device::to_string(batch.queue->device()) : "") +
                               " on the batch may be pending, and Arrow has no event for memory of the CPU: wait for "
                               "it first");
  }
  if (totals.sizes > 0 && !device::host_reaches(batch.device.type)) {
    throw UnsupportedTypeError("exporting view columns needs the sizes of variadic buffers in memory of " +
                               device::to_string(batch.device) + ", and the batch has none; copy it to the host first");
  }

  batch.event = batch.pending();

  // One pointer per array below the root (one is unused for each dictionary, whose pointer is in its parent's struct),
  // and the root's one buffer, its absent validity.
  static_assert(sizeof(Block) % alignof(ArrowArray) == 0 && alignof(ArrowArray) == alignof(void*) &&
                alignof(Origin) == alignof(void*));
  const std::size_t size = sizeof(Block) + totals.arrays * (sizeof(ArrowArray) + sizeof(Origin) + sizeof(void*)) +
                           sizeof(Origin) + (totals.buffers + 1) * sizeof(void*) + totals.sizes * sizeof(std::int64_t);
  auto* next = static_cast<std::byte*>(::operator new(size));
  auto* block = new (next) Block(std::move(batch), static_cast<std::int64_t>(totals.arrays) + 1);
  next += sizeof(Block);
  const RecordBatch& exported = block->batch;
  const std::size_t n_columns = exported.schema->fields().size();
  Writer writer{.block = block,
                .arrays = part<ArrowArray>(&next, totals.arrays),
                .origins = part<Origin>(&next, totals.arrays + 1),
                .pointers = part<ArrowArray*>(&next, totals.arrays),
                .buffers = part<const void*>(&next, totals.buffers + 1),
                .sizes = part<std::int64_t>(&next, totals.sizes),
                .host = device::host_reaches(exported.device.type)};
  ArrowArray& root = out->array;
  root.length = exported.num_rows;
  root.n_buffers = 1;
  root.buffers = Writer::take(&writer.buffers, 1);
  root.buffers[0] = nullptr;
  root.n_children = static_cast<std::int64_t>(n_columns);
  root.children = n_columns > 0 ? Writer::take(&writer.pointers, n_columns) : nullptr;
  writer.write(&exported, *exported.schema, root.children);
  root.release = release_array;
  root.private_data = writer.take_origin(nullptr, kRoot);
  out->device_id = exported.device.id;
  out->device_type = static_cast<ArrowDeviceType>(exported.device.type);
  out->sync_event = exported.event.native();
}

const Metadata& exported_metadata(const ArrowArray& array) noexcept {
  static const Metadata kNone;
  if (array.release != release_array) return kNone;
  const Origin& origin = origin_of(array);
  return origin.n_views == kRoot ? origin.block->batch.custom_metadata : kNone;
}

std::optional<std::int64_t> exported_size(const ArrowArray& array, std::int64_t buffer) noexcept {
  if (array.release != release_array) return std::nullopt;
  const Origin& origin = origin_of(array);
  if (buffer >= origin.n_views) return std::nullopt;
  const void* const data = array.buffers[buffer];
  if (data == kZeros) return 0;
  if (origin.views == nullptr || data == nullptr || origin.views[buffer].data != data) return std::nullopt;
  return origin.views[buffer].size;
}

}  // namespace crossdock::array
