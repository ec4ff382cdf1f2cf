#include "array/sizes.h"

#include <memory>
#include <string>
#include <unordered_map>

#include "array/internal/check_structure.h"
#include "array/internal/node_path.h"
#include "array/internal/text.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

using Owned = std::unordered_map<const RecordBatch*, std::shared_ptr<RecordBatch>>;

void own(RecordBatch* batch, Owned* owned, std::vector<RecordBatch*>* all) {
  for (std::shared_ptr<const RecordBatch>& dictionary : batch->dictionaries) {
    if (dictionary == nullptr) continue;
    std::shared_ptr<RecordBatch>& copy = (*owned)[dictionary.get()];
    if (copy == nullptr) {
      copy = std::make_shared<RecordBatch>(*dictionary);
      all->push_back(copy.get());
      own(copy.get(), owned, all);
    }
    dictionary = copy;
  }
}

void add_unknown(RecordBatch* batch, std::vector<SizesAt>* all) {
  const Schema& schema = *batch->schema;
  BufferCursor at(batch->variadic_counts);
  std::size_t view = 0;
  for (std::size_t i = 0; i < schema.nodes().size(); ++i) {
    const LayoutNode& layout = schema.nodes()[i];
    at.enter(layout);
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const std::size_t buffer = at.first() + b;
      if (layout.type.buffers[b] != BufferKind::kBytes || batch->buffers[buffer].size_known()) continue;
      const std::int32_t width = layout.type.buffers[b - 1] == BufferKind::kOffsets32 ? 4 : 8;
      const std::int64_t end = batch->nodes[i].offset + batch->nodes[i].length;
      all->push_back(
          {static_cast<const std::byte*>(batch->buffers[buffer - 1].data) + end * width, width, 1, batch, i, buffer});
    }
    if (!layout.type.variadic) continue;
    const std::size_t slot = view++;
    const std::size_t first = at.end() - at.n_variadic();
    for (std::size_t buffer = first; buffer < at.end(); ++buffer) {
      if (batch->buffers[buffer].size_known()) continue;
      all->push_back({batch->variadic_sizes.at(slot), 8, static_cast<std::int64_t>(at.n_variadic()), batch, i, first});
      break;
    }
  }
}

}  // namespace

std::vector<RecordBatch*> own_dictionaries(RecordBatch* batch) {
  // Keeps the dictionaries until all are found, so that no address is reused meanwhile.
  const std::vector<std::shared_ptr<const RecordBatch>> kept = batch->dictionaries;
  Owned owned;
  std::vector<RecordBatch*> all;
  own(batch, &owned, &all);
  return all;
}

std::vector<SizesAt> unknown_sizes(RecordBatch* batch) {
  std::vector<SizesAt> all;
  if (batch->sizes_known()) return all;
  add_unknown(batch, &all);
  for (RecordBatch* dictionary : own_dictionaries(batch)) add_unknown(dictionary, &all);
  return all;
}

void set_sizes(const SizesAt& at, const void* numbers) {
  const auto* bytes = static_cast<const std::byte*>(numbers);
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t size =
        at.width == 4 ? load_le<std::int32_t>(bytes + i * 4) : load_le<std::int64_t>(bytes + i * 8);
    BufferView& buffer = at.batch->buffers[at.first_buffer + static_cast<std::size_t>(i)];
    if (size < 0 || (size > 0 && buffer.data == nullptr)) {
      throw_invalid(node_path(*at.batch->schema, at.node),
                    std::string("its bytes have ") + (size < 0 ? "a size of " : "a null pointer and a size of ") +
                        std::to_string(size));
    }
    buffer = size > 0 ? BufferView{buffer.data, size} : BufferView{};
  }
}

void read_sizes(RecordBatch* batch) {
  check_readable(*batch, "read_sizes()");
  for (const SizesAt& at : unknown_sizes(batch)) set_sizes(at, at.numbers);
  check_structure(*batch);
}

}  // namespace crossdock::array
