#include "session/dictionary_shelf.h"

#include <utility>

namespace crossdock::session {

void DictionaryShelf::put(std::int64_t id, array::RecordBatch values) {
  by_id_[id] = std::make_shared<const array::RecordBatch>(std::move(values));
}

std::vector<std::shared_ptr<const array::RecordBatch>> DictionaryShelf::for_schema(const array::Schema& schema) const {
  std::vector<std::shared_ptr<const array::RecordBatch>> found;
  found.reserve(schema.dictionaries().size());
  for (const array::DictionarySlot& slot : schema.dictionaries()) {
    if (const auto known = by_id_.find(slot.id); known != by_id_.end()) {
      found.push_back(known->second);
      continue;
    }
    auto empty = std::make_shared<array::RecordBatch>();
    empty->schema = slot.values;
    empty->nodes.resize(slot.values->nodes().size());
    empty->buffers.resize(static_cast<std::size_t>(slot.values->n_buffers()));
    empty->variadic_counts.resize(static_cast<std::size_t>(slot.values->n_variadic()));
    empty->dictionaries = for_schema(*slot.values);
    found.push_back(std::move(empty));
  }
  return found;
}

}  // namespace crossdock::session
