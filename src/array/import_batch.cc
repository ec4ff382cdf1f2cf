#include <limits>
#include <optional>

#include "array/column.h"
#include "array/internal/bits.h"
#include "array/internal/check_structure.h"
#include "array/internal/exported.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "core/amounts.h"
#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "device/changing_memory.h"

namespace crossdock::array {
namespace {

/// Owns an imported array and releases it once, on the thread that drops the last owner.
struct Owner {
  ArrowDeviceArray array{};

  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (array.array.release != nullptr) array.array.release(&array.array);
  }
};

/// True if the array has the buffers of its type. In the C interface a view's array has one more buffer than in the
/// columnar format: the last one, the int64 sizes of its variadic buffers.
bool has_buffers_of(const ArrowArray& array, const TypeLayout& type) {
  // Arrays of type null had a buffer for the bitmap before Arrow 1.0, and still have one in Polars: it is ignored.
  if (type.n_buffers == 0 && array.n_buffers == 1 && array.n_children == 0) return true;
  return type.variadic ? array.n_buffers > type.n_buffers : array.n_buffers == type.n_buffers;
}

/// True if the counts of buffers and children are those of the subtree at `*node`. Moves `*node` past the subtree.
bool has_shape(const ArrowArray* array, const Schema& schema, std::size_t* node) {
  const LayoutNode& layout = schema.nodes()[(*node)++];
  if (array == nullptr || !has_buffers_of(*array, layout.type) || array->n_children != layout.n_children) return false;
  for (std::int64_t i = 0; i < array->n_children; ++i) {
    if (array->children == nullptr || !has_shape(array->children[i], schema, node)) return false;
  }
  return true;
}

/// True for an array of the one field itself, without a struct around it. A finite tree can't be its own only child, so
/// at most one of the two shapes fits.
bool is_bare_column(const ArrowArray& array, const Schema& schema) {
  std::size_t node = 0;
  return schema.fields().size() == 1 && has_shape(&array, schema, &node);
}

/// The part of an array that its parent shows: the offset and length of the top-level struct, applied to its children.
struct Window {
  std::int64_t start;
  std::int64_t length;
};

class BatchImporter {
 public:
  /// `path` is that of the dictionary's field if the batch is a dictionary.
  BatchImporter(RecordBatch* batch, std::string path)
      : batch_(*batch), schema_(*batch->schema), readable_(batch->host_readable()), path_(std::move(path)) {
    batch_.nodes.resize(schema_.nodes().size());
    batch_.buffers.reserve(static_cast<std::size_t>(schema_.n_buffers()));
    batch_.variadic_counts.reserve(static_cast<std::size_t>(schema_.n_variadic()));
    if (!readable_) batch_.variadic_sizes.reserve(static_cast<std::size_t>(schema_.n_variadic()));
    batch_.dictionaries.resize(schema_.dictionaries().size());
  }

  void import_struct(const ArrowArray& root) {
    check_root(root);
    batch_.num_rows = root.length;
    std::size_t node = 0;
    for (std::int64_t i = 0; i < root.n_children; ++i) {
      const ArrowArray& child = child_of(root, i, node);
      const Window window{root.offset, root.length};
      node = import_node(child, node, &window);
    }
  }

  void import_column(const ArrowArray& column) {
    batch_.num_rows = column.length;
    import_node(column, 0, nullptr);
  }

 private:
  [[noreturn]] void fail(std::size_t node, const std::string& what) const {
    throw_invalid(path_.empty() ? node_path(schema_, node) : path_, what);
  }

  void check_root(const ArrowArray& root) const {
    const auto n_columns = static_cast<std::int64_t>(schema_.fields().size());
    if (root.n_buffers != 1 || root.n_children != n_columns || root.dictionary != nullptr) {
      throw_invalid("", "the array has " + std::to_string(root.n_buffers) + " buffers and " +
                            std::to_string(root.n_children) + " children; a struct array of this schema has 1 and " +
                            std::to_string(n_columns));
    }
    check_node({root.length, root.null_count, root.offset}, [](const std::string& what) { throw_invalid("", what); });
    if (root.buffers == nullptr) throw_invalid("", "the array has no pointer to its buffers");
    std::int64_t nulls = root.null_count;
    if (nulls == -1) nulls = count_nulls(root);
    if (nulls != 0) {
      throw_invalid("", counted(nulls, "row is null", "rows are null") +
                            ", which a record batch can't represent; flatten the struct first");
    }
  }

  std::int64_t count_nulls(const ArrowArray& root) const {
    if (root.buffers[0] == nullptr) return 0;
    if (!readable_) {
      throw UnsupportedTypeError(
          "top level: the null count is unknown, and the host can't read the validity bits now; give a null count, or "
          "no validity buffer");
    }
    return root.length - count_bits(static_cast<const std::byte*>(root.buffers[0]), root.offset, root.length);
  }

  const ArrowArray& child_of(const ArrowArray& parent, std::int64_t i, std::size_t node) const {
    if (parent.children == nullptr || parent.children[i] == nullptr) fail(node, "the pointer to its array is null");
    return *parent.children[i];
  }

  void check_array(const ArrowArray& array, std::size_t node) const {
    const LayoutNode& layout = schema_.nodes()[node];
    if (array.release == nullptr) fail(node, "its array was released or moved out");
    if (!has_buffers_of(array, layout.type) || array.n_children != layout.n_children) {
      fail(node, "its array has " + std::to_string(array.n_buffers) + " buffers and " +
                     std::to_string(array.n_children) + " children; " + type_name(layout.field->type) +
                     (layout.type.variadic ? " has at least " : " has ") +
                     std::to_string(layout.type.n_buffers + (layout.type.variadic ? 1 : 0)) + " and " +
                     std::to_string(layout.n_children));
    }
    if (array.n_buffers > 0 && array.buffers == nullptr) fail(node, "its array has no pointer to its buffers");
    if ((array.dictionary != nullptr) != (layout.dictionary_slot >= 0)) {
      fail(node, array.dictionary != nullptr ? "its array has a dictionary, its schema has none"
                                             : "it is dictionary-encoded, but its array has no dictionary");
    }
    check_node({array.length, array.null_count, array.offset}, [&](const std::string& what) { fail(node, what); });
  }

  std::size_t import_node(const ArrowArray& array, std::size_t index, const Window* window) {
    check_array(array, index);
    const LayoutNode& layout = schema_.nodes()[index];
    Node node{array.length, array.null_count, array.offset};
    if (window != nullptr) cut(*window, index, &node);
    if (layout.id == TypeId::kNull) {
      node.null_count = node.length;
    } else if (!layout.type.has_validity()) {
      node.null_count = 0;
    } else if (node.null_count == -1 && (array.buffers[0] == nullptr || node.length == 0)) {
      node.null_count = 0;
    }
    batch_.nodes[index] = node;
    import_buffers(array, node, index);
    if (layout.dictionary_slot >= 0) import_dictionary(*array.dictionary, index);
    std::size_t next = index + 1;
    for (std::int64_t i = 0; i < array.n_children; ++i) {
      next = import_node(child_of(array, i, next), next, nullptr);
    }
    return next;
  }

  void cut(const Window& window, std::size_t index, Node* node) const {
    if (window.start > node->length || window.length > node->length - window.start) {
      fail(index, "length " + std::to_string(node->length) + ", but the batch shows " + std::to_string(window.length) +
                      " rows from row " + std::to_string(window.start));
    }
    if (window.start == 0 && window.length == node->length) return;
    // Sums are at most length + offset, which was checked. The null count of a part is unknown, unless the whole has no
    // nulls.
    node->offset += window.start;
    node->length = window.length;
    if (node->null_count != 0) node->null_count = -1;
  }

  /// Finds the sizes of buffers, which the C interface doesn't give. Sizes that this library exported are known. Others
  /// follow from the length, and those of bytes from the last offset. A null pointer has no size; check_structure
  /// checks whether it is allowed.
  void import_buffers(const ArrowArray& array, const Node& node, std::size_t index) {
    const LayoutNode& layout = schema_.nodes()[index];
    const std::size_t first = batch_.buffers.size();
    batch_.buffers.resize(first + layout.type.n_buffers);
    BufferView* views = batch_.buffers.data() + first;
    const std::int64_t end = node.offset + node.length;
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const void* const data = array.buffers[b];
      if (data == nullptr) continue;
      const std::optional<std::int64_t> exported = exported_size(array, static_cast<std::int64_t>(b));
      const std::int64_t size = exported ? *exported : implied_size(layout.type, b, data, views, end, index);
      // Keeps buffers of a device even if none of their bytes are needed.
      if (size != 0 || !readable_) views[b] = {data, size};
    }
    if (layout.type.variadic) import_variadic(array, index);
  }

  /// Returns the size of buffer `b` that follows from the length. `views` are the node's buffers; those before `b` are
  /// already imported.
  std::int64_t implied_size(const TypeLayout& type, std::size_t b, const void* data, const BufferView* views,
                            std::int64_t end, std::size_t index) const {
    const BufferKind kind = type.buffers[b];
    switch (kind) {
      case BufferKind::kValidity:
      case BufferKind::kBits: return bytes_for_bits(end);
      case BufferKind::kOffsets32: return offsets_size(end, sizeof(std::int32_t), index);
      case BufferKind::kOffsets64: return offsets_size(end, sizeof(std::int64_t), index);
      case BufferKind::kBytes: return pointed_to(data, views[b - 1], type.buffers[b - 1], end);
      default: return bytes_of(end, element_width(kind, type.width), index);
    }
  }

  /// Imports the variadic buffers of a view. Their sizes are in the array's last buffer.
  void import_variadic(const ArrowArray& array, std::size_t index) {
    const std::int64_t n_fixed = schema_.nodes()[index].type.n_buffers;
    const std::int64_t n = array.n_buffers - n_fixed - 1;
    if (n > kMaxBuffers - static_cast<std::int64_t>(batch_.buffers.size())) {
      fail(index, "with its " + std::to_string(n) + " variadic buffers the batch has more than " +
                      std::to_string(kMaxBuffers) + "; compact the column, or split the table");
    }
    batch_.variadic_counts.push_back(n);
    const auto* sizes = static_cast<const std::byte*>(array.buffers[array.n_buffers - 1]);
    if (!readable_) batch_.variadic_sizes.push_back(sizes);
    if (n == 0) return;
    if (sizes == nullptr) fail(index, "the sizes of its " + std::to_string(n) + " variadic buffers are missing");
    for (std::int64_t i = 0; i < n; ++i) {
      const void* data = array.buffers[n_fixed + i];
      if (const std::optional<std::int64_t> exported = exported_size(array, n_fixed + i)) {
        batch_.buffers.push_back(*exported != 0 || !readable_ ? BufferView{data, *exported} : BufferView{});
        continue;
      }
      if (!readable_) {
        batch_.buffers.push_back(data != nullptr ? BufferView{data, kUnknownSize} : BufferView{});
        continue;
      }
      const auto size = number_at<std::int64_t>(sizes, i);
      if (size < 0 || (size > 0 && data == nullptr)) {
        fail(index, "variadic buffer " + std::to_string(i) + " has " +
                        (size < 0 ? "a size of " : "a null pointer and a size of ") + std::to_string(size));
      }
      batch_.buffers.push_back(size > 0 ? BufferView{data, size} : BufferView{});
    }
  }

  std::int64_t bytes_of(std::int64_t n, std::int64_t width, std::size_t index) const {
    std::int64_t size;
    if (!checked_multiply(n, width, &size)) fail(index, std::to_string(n) + " elements exceed the address space");
    return size;
  }

  std::int64_t offsets_size(std::int64_t end, std::size_t width, std::size_t index) const {
    if (end == 0) return 0;  // old producers omit this buffer, so it isn't accessed
    const std::int64_t n = end == std::numeric_limits<std::int64_t>::max() ? end : end + 1;
    return bytes_of(n, static_cast<std::int64_t>(width), index);
  }

  /// Returns the last offset, which must be trusted because the C interface gives no other size. If the data is in this
  /// process's own mapping that the producer can change, the result never exceeds the mapping.
  std::int64_t pointed_to(const void* data, const BufferView& offsets, BufferKind kind, std::int64_t end) const {
    if (end == 0 || offsets.data == nullptr) return 0;
    if (!readable_) return kUnknownSize;
    const auto* numbers = static_cast<const std::byte*>(offsets.data);
    const std::int64_t last = kind == BufferKind::kOffsets32 ? std::int64_t{number_at<std::int32_t>(numbers, end)}
                                                             : number_at<std::int64_t>(numbers, end);
    if (last <= 0) return 0;  // check_structure refuses a negative one
    const std::optional<std::uint64_t> left = device::bytes_left_in_changing_memory(data);
    return left && static_cast<std::uint64_t>(last) > *left ? static_cast<std::int64_t>(*left) : last;
  }

  void import_dictionary(const ArrowArray& array, std::size_t index) {
    const auto slot = static_cast<std::size_t>(schema_.nodes()[index].dictionary_slot);
    auto dictionary = std::make_shared<RecordBatch>();
    dictionary->schema = schema_.dictionaries()[slot].values;
    static_cast<device::Memory&>(*dictionary) = batch_;
    const std::string above = path_.empty() ? node_path(schema_, index) : path_;
    BatchImporter(dictionary.get(), above + ".dictionary").import_column(array);
    batch_.dictionaries[slot] = std::move(dictionary);
  }

  RecordBatch& batch_;
  const Schema& schema_;
  const bool readable_;
  const std::string path_;
};

/// `of_column`: the array is the one column itself, whatever its shape.
RecordBatch import_as(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array, bool of_column) {
  if (schema == nullptr || array == nullptr) throw InvalidArgumentError("import_batch needs a schema and an array");
  if (array->array.release == nullptr) {
    throw InvalidArgumentError("the ArrowArray was released already; each may be consumed once");
  }
  if (array->device_type == ARROW_DEVICE_CPU && array->sync_event != nullptr) {
    throw InvalidDataError(
        "an ArrowDeviceArray on the CPU has a sync_event, but the CPU has no events: it must be null");
  }
  auto owner = std::make_shared<Owner>();
  RecordBatch batch;
  batch.schema = std::move(schema);
  batch.owner = owner;
  batch.device = {.type = static_cast<device::DeviceType>(array->device_type), .id = array->device_id};
  batch.kind = device::kind_of(batch.device.type);
  batch.read_only = true;
  if (array->sync_event != nullptr) batch.event = device::Event(device::NativeEvent(array->sync_event), owner);
  BatchImporter importer(&batch, "");
  if (of_column || is_bare_column(array->array, *batch.schema)) {
    importer.import_column(array->array);
  } else {
    importer.import_struct(array->array);
  }
  check_structure(batch);
  batch.custom_metadata = exported_metadata(array->array);
  // Nothing throws from here on. The array's ownership moves; the children that it points to stay in their place.
  owner->array = *array;
  array->array.release = nullptr;
  return batch;
}

}  // namespace

RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array) {
  return import_as(std::move(schema), array, false);
}

RecordBatch import_table(const TableSchema& schema, ArrowDeviceArray* array) {
  return import_as(schema.schema, array, schema.of_column);
}

}  // namespace crossdock::array
