#include "array/internal/check_structure.h"

#include <limits>

#include "array/internal/bits.h"
#include "array/internal/integers.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

class StructureChecker {
 public:
  StructureChecker(const RecordBatch& batch, const Place* parent)
      : batch_(batch), schema_(*batch.schema), parent_(parent), readable_(batch.host_readable()) {}

  void run();

 private:
  /// The number of children of a node that are still to be checked, and the length that it requires of them.
  struct Frame {
    std::int64_t children_left;
    std::int64_t required_length;
  };

  [[noreturn]] void fail(std::size_t node, const std::string& what) const {
    const Place place{parent_, &schema_, node};
    throw_invalid(path_of(&place), what);
  }

  void check_length(std::size_t i, const Frame& parent, bool top) const;
  void check_size(std::size_t i, const BufferView& buffer, std::int64_t needed, const char* what) const {
    if (!buffer.size_known() && buffer.data != nullptr) [[unlikely]]
      return;  // check_buffers accepts an unknown size only where it is allowed
    if (needed > buffer.size || (needed > 0 && buffer.data == nullptr)) [[unlikely]] {
      fail_size(i, buffer, needed, what);
    }
  }
  [[noreturn]] void fail_size(std::size_t i, const BufferView& buffer, std::int64_t needed, const char* what) const;
  void check_validity(std::size_t i, const BufferView& validity, std::int64_t end) const;
  template <typename Offset>
  std::int64_t last_offset(std::size_t i, const BufferView& offsets, std::int64_t end) const;
  std::int64_t check_buffers(std::size_t i, const BufferCursor& at, std::int64_t end) const;
  void check_run_ends(std::size_t i, const BufferCursor& at, std::int64_t end) const;
  /// Unions and run-end encoded arrays have no nulls of their own, only their children's.
  void check_no_nulls(std::size_t i) const {
    if (batch_.nodes[i].null_count == 0) return;
    fail(i, "null count " + std::to_string(batch_.nodes[i].null_count) + ", but " +
                type_name(schema_.nodes()[i].field->type) + " has no validity of its own: it must be 0");
  }
  /// True for a size that the C data interface doesn't give and that can't be read here.
  bool may_be_unknown(const LayoutNode& layout, std::size_t b, const BufferView& buffer) const noexcept {
    return !readable_ && !buffer.size_known() && buffer.data != nullptr &&
           (b >= layout.type.n_buffers || layout.type.buffers[b] == BufferKind::kBytes);
  }
  std::int64_t product(std::size_t i, std::int64_t a, std::int64_t b) const {
    std::int64_t out;
    if (!checked_multiply(a, b, &out))
      fail(i, "length " + std::to_string(a) + " times " + std::to_string(b) + " overflows");
    return out;
  }
  void check_dictionary(std::size_t i) const;

  const RecordBatch& batch_;
  const Schema& schema_;
  const Place* parent_;
  const bool readable_;
};

void StructureChecker::fail_size(std::size_t i, const BufferView& buffer, std::int64_t needed, const char* what) const {
  fail(i, std::string("its ") + what + " buffer has " + std::to_string(buffer.data == nullptr ? 0 : buffer.size) +
              " bytes, but its length needs " + std::to_string(needed));
}

void StructureChecker::check_length(std::size_t i, const Frame& parent, bool top) const {
  const Node& node = batch_.nodes[i];
  check_node(node, [&](const std::string& what) { fail(i, what); });
  if (node.length < parent.required_length || (top && node.length != parent.required_length)) {
    fail(i, "length " + std::to_string(node.length) + ", but " + (top ? "the batch has " : "its parent needs ") +
                std::to_string(parent.required_length));
  }
}

void StructureChecker::check_validity(std::size_t i, const BufferView& validity, std::int64_t end) const {
  const Node& node = batch_.nodes[i];
  if (validity.data == nullptr && validity.size == 0) {
    if (node.null_count != 0) {
      fail(i, "null count " + std::to_string(node.null_count) + ", but there is no validity buffer");
    }
    return;
  }
  check_size(i, validity, bytes_for_bits(end), "validity");
}

/// Returns the length that the node's offsets require of the data that they point into; 0 if they can't be read here.
template <typename Offset>
std::int64_t StructureChecker::last_offset(std::size_t i, const BufferView& offsets, std::int64_t end) const {
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(Offset));
  if (end == 0 && offsets.size < kWidth) return 0;
  check_size(i, offsets, product(i, end == std::numeric_limits<std::int64_t>::max() ? end : end + 1, kWidth),
             "offsets");
  if (!readable_) return 0;
  const auto* data = static_cast<const std::byte*>(offsets.data);
  const auto first = number_at<Offset>(data, batch_.nodes[i].offset);
  const auto last = number_at<Offset>(data, end);
  if (first < 0 || last < first) {
    fail(i, "its offsets run from " + std::to_string(first) + " to " + std::to_string(last));
  }
  return last;
}

const char* buffer_name(BufferKind kind) noexcept {
  switch (kind) {
    case BufferKind::kTypeIds: return "type ids";
    case BufferKind::kUnionOffsets:
    case BufferKind::kListViewOffsets32:
    case BufferKind::kListViewOffsets64: return "offsets";
    case BufferKind::kListViewSizes32:
    case BufferKind::kListViewSizes64: return "sizes";
    case BufferKind::kViews: return "views";
    default: return "data";
  }
}

/// Returns the length that children must have.
std::int64_t StructureChecker::check_buffers(std::size_t i, const BufferCursor& at, std::int64_t end) const {
  const LayoutNode& layout = schema_.nodes()[i];
  const BufferView* buffers = batch_.buffers.data() + at.first();
  std::int64_t pointed_to = 0;
  const std::size_t n_buffers = at.end() - at.first();
  for (std::size_t b = 0; b < n_buffers; ++b) {
    const BufferView& buffer = buffers[b];
    if (buffer.size < 0 && !may_be_unknown(layout, b, buffer)) [[unlikely]]
      fail(i, "buffer " + std::to_string(b) + " has a size of " + std::to_string(buffer.size));
    if (b >= layout.type.n_buffers) {
      check_size(i, buffer, buffer.size, "data");  // A variadic buffer only has to exist.
      continue;
    }
    const BufferKind kind = layout.type.buffers[b];
    switch (kind) {
      case BufferKind::kValidity: check_validity(i, buffer, end); break;
      case BufferKind::kBits: check_size(i, buffer, bytes_for_bits(end), "data"); break;
      case BufferKind::kOffsets32: pointed_to = last_offset<std::int32_t>(i, buffer, end); break;
      case BufferKind::kOffsets64: pointed_to = last_offset<std::int64_t>(i, buffer, end); break;
      case BufferKind::kBytes: check_size(i, buffer, pointed_to, "data"); break;
      case BufferKind::kFixed: check_size(i, buffer, product(i, end, layout.type.width), "data"); break;
      default: check_size(i, buffer, product(i, end, element_width(kind, 0)), buffer_name(kind));
    }
  }
  switch (layout.id) {
    case TypeId::kStruct: return end;
    case TypeId::kSparseUnion: check_no_nulls(i); return end;
    case TypeId::kDenseUnion: check_no_nulls(i); return 0;
    case TypeId::kRunEndEncoded: check_no_nulls(i); return end > 0 ? 1 : 0;
    case TypeId::kFixedSizeList: return product(i, end, layout.fixed_size);
    default: return pointed_to;
  }
}

/// Checks `i`, a node of run ends, which is the first child of the node before it. That node shows elements up to
/// `end`; the values come next. `at` is at the run ends.
void StructureChecker::check_run_ends(std::size_t i, const BufferCursor& at, std::int64_t end) const {
  const Node& ends = batch_.nodes[i];
  const Node& values = batch_.nodes[i + 1];
  if (ends.null_count > 0) fail(i, std::to_string(ends.null_count) + " run ends are null");
  if (values.length < ends.length) {
    fail(i + 1, "length " + std::to_string(values.length) + ", but there are " + std::to_string(ends.length) + " runs");
  }
  if (end == 0 || !readable_) return;
  const BufferView& buffer = batch_.buffers[at.first() + 1];
  const std::int64_t last = load_integer(schema_.nodes()[i].id, buffer.data, ends.offset + ends.length - 1);
  if (last < end) {
    fail(i, "the last run ends at " + std::to_string(last) + ", before the end of its parent, " + std::to_string(end));
  }
}

void StructureChecker::check_dictionary(std::size_t i) const {
  const auto slot = static_cast<std::size_t>(schema_.nodes()[i].dictionary_slot);
  const RecordBatch* dictionary = batch_.dictionaries[slot].get();
  const Node& node = batch_.nodes[i];
  if (dictionary == nullptr) {
    if (node.length > 0 && node.null_count != node.length) {
      fail(i,
           "it has indices but its dictionary (id " + std::to_string(schema_.dictionaries()[slot].id) + ") is missing");
    }
    return;
  }
  const DictionarySlot& expected = schema_.dictionaries()[slot];
  if (!is_dictionary_of(*dictionary, expected)) {
    fail(i,
         "its dictionary's values are not of the schema's type, " + type_name(expected.values->fields().front().type));
  }
  const Place here{parent_, &schema_, i};
  StructureChecker(*dictionary, &here).run();
}

void StructureChecker::run() {
  const std::vector<LayoutNode>& layout = schema_.nodes();
  if (!batch_.counts_fit()) throw InvalidDataError(in_field(path_of(parent_)) + counts_message(batch_));
  if (batch_.num_rows < 0) throw_invalid(path_of(parent_), std::to_string(batch_.num_rows) + " rows");
  // Walks in preorder with an explicit stack: schemas are never deeper than kMaxDepth.
  Frame frames[kMaxDepth + 1];
  int depth = 0;
  frames[0] = {static_cast<std::int64_t>(schema_.fields().size()), batch_.num_rows};
  BufferCursor at(batch_.variadic_counts);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    while (frames[depth].children_left == 0) --depth;
    --frames[depth].children_left;
    check_length(i, frames[depth], depth == 0);
    const std::int64_t end = batch_.nodes[i].offset + batch_.nodes[i].length;
    at.enter(layout[i]);
    const std::int64_t required = check_buffers(i, at, end);
    if (i > 0 && layout[i - 1].id == TypeId::kRunEndEncoded) [[unlikely]] {
      check_run_ends(i, at, batch_.nodes[i - 1].offset + batch_.nodes[i - 1].length);
    }
    if (layout[i].dictionary_slot >= 0) check_dictionary(i);
    if (layout[i].n_children > 0) frames[++depth] = {layout[i].n_children, required};
  }
}

}  // namespace

std::string counts_message(const RecordBatch& batch) {
  return ": the batch has " + std::to_string(batch.nodes.size()) + " nodes, " + std::to_string(batch.buffers.size()) +
         " buffers, " + std::to_string(batch.variadic_counts.size()) + " variadic counts and " +
         std::to_string(batch.dictionaries.size()) + " dictionaries; its schema needs " +
         std::to_string(batch.schema->nodes().size()) + ", " + std::to_string(batch.schema->n_buffers()) +
         (batch.schema->has_views() ? " and the variadic ones, " : ", ") + std::to_string(batch.schema->n_variadic()) +
         " and " + std::to_string(batch.schema->dictionaries().size());
}

bool is_dictionary_of(const RecordBatch& dictionary, const DictionarySlot& slot) {
  if (dictionary.schema == slot.values) return true;
  return dictionary.schema != nullptr && dictionary.schema->fields().size() == 1 &&
         dictionary.schema->fields().front().same_values(slot.values->fields().front());
}

void check_readable(const RecordBatch& batch, const char* function) {
  if (batch.host_readable()) return;
  throw InvalidArgumentError(std::string(function) +
                             " needs host memory without an event to wait for; the batch is on " +
                             device::to_string(batch.device) + ": exchange::on_host() brings it to the host");
}

void check_structure(const RecordBatch& batch) {
  if (batch.schema == nullptr) throw InvalidDataError("top level: the batch has no schema");
  StructureChecker(batch, nullptr).run();
}

}  // namespace crossdock::array
