#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {
namespace {

[[noreturn]] void fail_counts(const char* what, std::size_t found, std::size_t expected) {
  throw InvalidArgumentError("assembling a record batch: " + std::to_string(found) + " " + what + ", but " +
                             std::to_string(expected) + " are needed");
}

}  // namespace

array::RecordBatch assemble(std::shared_ptr<const array::Schema> schema, const BatchHeader& header,
                            const std::vector<array::BufferView>& buffers,
                            std::vector<std::shared_ptr<const array::RecordBatch>> dictionaries,
                            std::shared_ptr<const void> owner) {
  const auto& layout = schema->nodes();
  if (header.nodes.size() != layout.size()) fail_counts("nodes", header.nodes.size(), layout.size());
  if (header.variadic_counts.size() != static_cast<std::size_t>(schema->n_variadic())) {
    fail_counts("variadic counts", header.variadic_counts.size(), static_cast<std::size_t>(schema->n_variadic()));
  }
  auto n_buffers = static_cast<std::size_t>(schema->n_buffers());
  for (const std::int64_t count : header.variadic_counts) n_buffers += static_cast<std::size_t>(count);
  if (header.buffers.size() != n_buffers) fail_counts("buffer lengths", header.buffers.size(), n_buffers);
  if (buffers.size() != n_buffers) fail_counts("buffers", buffers.size(), n_buffers);
  if (dictionaries.size() != schema->dictionaries().size()) {
    fail_counts("dictionaries", dictionaries.size(), schema->dictionaries().size());
  }
  array::RecordBatch out;
  out.num_rows = header.num_rows;
  out.nodes = header.nodes;
  out.buffers = buffers;
  out.variadic_counts = header.variadic_counts;
  for (std::size_t i = 0; i < n_buffers; ++i) {
    const std::int64_t length = header.buffers[i].length;
    if (buffers[i].size < length || (length > 0 && buffers[i].data == nullptr)) {
      throw InvalidArgumentError("assembling a record batch: buffer " + std::to_string(i) + " has " +
                                 std::to_string(buffers[i].size) + " bytes, but the metadata says " +
                                 std::to_string(length));
    }
    out.buffers[i].size = length;
  }
  array::BufferCursor at(header.variadic_counts);
  for (const array::LayoutNode& node : layout) {
    at.enter(node);
    if (!node.type.has_validity()) continue;
    array::BufferView& validity = out.buffers[at.first()];
    // A bitmap without bytes is absent: with a pointer, a reader would take it for one.
    if (validity.size == 0) validity.data = nullptr;
  }
  out.schema = std::move(schema);
  out.custom_metadata = header.custom_metadata;
  out.dictionaries = std::move(dictionaries);
  out.owner = std::move(owner);
  return out;
}

}  // namespace crossdock::ipc
