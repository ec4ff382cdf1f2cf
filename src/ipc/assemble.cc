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

/// Whether each buffer has its length already, and an address if it isn't empty. Without a branch for each.
bool are_whole(const std::vector<BufferRange>& ranges, const std::vector<array::BufferView>& buffers) {
  std::uint64_t differences = 0;
  bool odd = false;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    differences |= static_cast<std::uint64_t>(buffers[i].size ^ ranges[i].length);
    odd |= (buffers[i].data == nullptr) != (ranges[i].length == 0);
  }
  return differences == 0 && !odd;
}

void cut(const std::vector<BufferRange>& ranges, std::vector<array::BufferView>* buffers) {
  for (std::size_t i = 0; i < buffers->size(); ++i) {
    array::BufferView& buffer = (*buffers)[i];
    const std::int64_t length = ranges[i].length;
    if (buffer.size < length || (length > 0 && buffer.data == nullptr)) {
      throw InvalidArgumentError("assembling a record batch: buffer " + std::to_string(i) + " has " +
                                 std::to_string(buffer.size) + " bytes, but the metadata says " +
                                 std::to_string(length));
    }
    // With a pointer, a reader would take a bitmap without bytes for one.
    buffer = {length == 0 ? nullptr : buffer.data, length};
  }
}

}  // namespace

array::RecordBatch assemble(std::shared_ptr<const array::Schema> schema, const BatchHeader& header,
                            std::vector<array::BufferView> buffers,
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
  if (!are_whole(header.buffers, buffers)) cut(header.buffers, &buffers);
  // The copies come first: where one throws within the braces, GCC 12 destroys `owner` twice.
  auto nodes = header.nodes;
  auto variadic_counts = header.variadic_counts;
  auto custom_metadata = header.custom_metadata;
  return {{.device = {}, .owner = std::move(owner)},
          std::move(schema),
          header.num_rows,
          std::move(nodes),
          std::move(buffers),
          std::move(variadic_counts),
          std::move(dictionaries),
          std::move(custom_metadata)};
}

}  // namespace crossdock::ipc
