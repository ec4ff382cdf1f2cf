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
  const BufferView* views;  ///< The array's buffers in the block's batch; empty ones if it isn't there.
  std::int64_t n_views;     ///< kRoot for the root, which has no views.
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
struct ArrayWriter {
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

  /// Writes all nodes of a batch, and the pointers to its columns to `tops`. `batch` is null for an empty one.
  void write(const RecordBatch* batch, const Schema& schema, ArrowArray** tops) noexcept {
    ArrowArray* const first = arrays;
    write_nodes(batch, schema, tops);
    if (schema.dictionaries().empty()) [[likely]]
      return;
    for (std::size_t i = 0; i < schema.nodes().size(); ++i) {
      const LayoutNode& layout = schema.nodes()[i];
      if (layout.dictionary_slot < 0) continue;
      const auto slot = static_cast<std::size_t>(layout.dictionary_slot);
      const RecordBatch* dictionary = batch != nullptr ? batch->dictionaries[slot].get() : nullptr;
      write(dictionary, *schema.dictionaries()[slot].values, &first[i].dictionary);
    }
  }

  /// Writes a node without children and its `n_views` buffers, to `own`. Where both numbers are constants, this is a
  /// few stores.
  static inline void write_one(const Node& node, const BufferView* views, std::size_t n_views, bool has_validity,
                               bool host, const void** own, ArrowArray* array) noexcept {
    for (std::size_t b = 0; b < n_views; ++b) {
      const void* const data = views[b].data;
      // An absent validity buffer, which is always the first, is a null pointer. Others are never null on the host.
      const void* const absent = b == 0 && has_validity ? nullptr : kZeros;
      own[b] = (data != nullptr && views[b].size != 0) || !host ? data : absent;
    }
    array->length = node.length;
    array->null_count = has_validity && own[0] != nullptr ? node.null_count : 0;
    array->offset = node.offset;
    array->n_buffers = static_cast<std::int64_t>(n_views);
    array->n_children = 0;
    array->buffers = n_views > 0 ? own : nullptr;
    array->children = nullptr;
    array->dictionary = nullptr;
    array->release = release_array;
  }

  /// The same as write(), without dictionaries.
  void write_nodes(const RecordBatch* batch, const Schema& schema, ArrowArray** tops) noexcept {
    struct Frame {
      ArrowArray** next;
      ArrowArray** end;
    };
    static constexpr Node kNoNode{};
    static constexpr BufferView kNoViews[std::size(TypeLayout{}.buffers)] = {};
    Frame frames[kMaxDepth + 1];
    Frame* frame = frames;
    *frame = {tops, tops + schema.fields().size()};
    const bool is_there = batch != nullptr;
    const Node* node = is_there ? batch->nodes.data() : &kNoNode;
    const BufferView* views = is_there ? batch->buffers.data() : kNoViews;
    const std::int64_t* variadic_counts = is_there ? batch->variadic_counts.data() : nullptr;
    const void* const* known_sizes =
        is_there && !batch->variadic_sizes.empty() ? batch->variadic_sizes.data() : nullptr;
    // Locals, which stay in registers.
    ArrowArray* array = arrays;
    Origin* origin = origins;
    const void** own = buffers;
    for (const LayoutNode& layout : schema.nodes()) {
      while (frame->next == frame->end) --frame;
      *frame->next++ = array;
      std::size_t n_views = 2;
      if (layout.element_bits != 0) [[likely]] {
        write_one(*node, views, n_views, true, host, own, array);
      } else {
        const std::size_t n_variadic =
            layout.type.variadic && is_there ? static_cast<std::size_t>(*variadic_counts++) : 0;
        n_views = layout.type.n_buffers + n_variadic;
        write_one(*node, views, n_views, layout.type.has_validity(), host, own, array);
        if (layout.id == TypeId::kNull) array->null_count = node->length;
        if (layout.type.variadic) {
          own[array->n_buffers++] =
              known_sizes != nullptr ? *known_sizes++ : write_sizes(views + layout.type.n_buffers, n_variadic);
        }
        if (layout.n_children > 0) {
          array->n_children = layout.n_children;
          array->children = take(&pointers, static_cast<std::size_t>(layout.n_children));
          *++frame = {array->children, array->children + layout.n_children};
        }
      }
      own += array->n_buffers;
      array->private_data = new (origin++) Origin{block, views, static_cast<std::int64_t>(n_views)};
      ++array;
      if (is_there) [[likely]] {
        ++node;
        views += n_views;
      }
    }
    arrays = array;
    origins = origin;
    buffers = own;
  }

  /// Returns the buffer with the sizes of variadic buffers.
  const void* write_sizes(const BufferView* variadic, std::size_t n) noexcept {
    if (n == 0) return host ? kZeros : nullptr;
    std::int64_t* const own = take(&sizes, n);
    for (std::size_t i = 0; i < n; ++i) own[i] = variadic[i].data != nullptr ? variadic[i].size : 0;
    return own;
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

void export_batch(RecordBatch&& batch, ArrowDeviceArray* out) {
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

  device::Event pending;
  if (!batch.event.none() || batch.queue) pending = batch.pending();

  // One pointer per array below the root (one is unused for each dictionary, whose pointer is in its parent's struct),
  // and the root's one buffer, its absent validity.
  static_assert(sizeof(Block) % alignof(ArrowArray) == 0 && alignof(ArrowArray) == alignof(void*) &&
                alignof(Origin) == alignof(void*));
  const std::size_t size = sizeof(Block) + totals.arrays * (sizeof(ArrowArray) + sizeof(Origin) + sizeof(void*)) +
                           sizeof(Origin) + (totals.buffers + 1) * sizeof(void*) + totals.sizes * sizeof(std::int64_t);
  auto* next = static_cast<std::byte*>(::operator new(size));
  auto* block = new (next) Block(std::move(batch), static_cast<std::int64_t>(totals.arrays) + 1);
  block->batch.event = std::move(pending);
  next += sizeof(Block);
  const RecordBatch& exported = block->batch;
  const std::size_t n_columns = exported.schema->fields().size();
  ArrayWriter writer{.block = block,
                     .arrays = part<ArrowArray>(&next, totals.arrays),
                     .origins = part<Origin>(&next, totals.arrays + 1),
                     .pointers = part<ArrowArray*>(&next, totals.arrays),
                     .buffers = part<const void*>(&next, totals.buffers + 1),
                     .sizes = part<std::int64_t>(&next, totals.sizes),
                     .host = device::host_reaches(exported.device.type)};
  ArrowArray& root = out->array;
  root.length = exported.num_rows;
  root.n_buffers = 1;
  root.buffers = ArrayWriter::take(&writer.buffers, 1);
  root.buffers[0] = nullptr;
  root.n_children = static_cast<std::int64_t>(n_columns);
  root.children = n_columns > 0 ? ArrayWriter::take(&writer.pointers, n_columns) : nullptr;
  writer.write(&exported, *exported.schema, root.children);
  root.release = release_array;
  root.private_data = new (writer.origins) Origin{block, nullptr, kRoot};
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
  if (data == nullptr || origin.views[buffer].data != data) return std::nullopt;
  return origin.views[buffer].size;
}

void export_batch(const RecordBatch& batch, ArrowDeviceArray* out) { export_batch(RecordBatch(batch), out); }

}  // namespace crossdock::array
