#include "ipc/dictionary_store.h"

#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "ipc/internal/concatenate.h"

namespace crossdock::ipc {

std::vector<std::uint64_t> DictionaryStore::replacements_in(const array::Schema& schema) const {
  std::vector<std::uint64_t> found;
  for (const array::DictionarySlot& slot : schema.dictionaries()) {
    const auto known = by_id_.find(slot.id);
    found.push_back(known == by_id_.end() ? 0 : known->second.replacements);
  }
  return found;
}

void DictionaryStore::put(std::int64_t id, array::RecordBatch values, bool is_delta) {
  std::vector<std::uint64_t> inner = replacements_in(*values.schema);
  if (!is_delta) {
    Entry& entry = by_id_[id];
    entry.bytes = values.nbytes();
    entry.values = std::make_shared<const array::RecordBatch>(std::move(values));
    entry.deltas.clear();
    entry.inner_replacements = std::move(inner);
    ++entry.replacements;
    return;
  }
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) {
    throw InvalidDataError("dictionary " + std::to_string(id) + " is extended by a delta, but was not sent before it");
  }
  Entry& entry = known->second;
  if (inner != entry.inner_replacements) {
    throw UnsupportedTypeError("dictionary " + std::to_string(id) +
                               " is extended by a delta after a dictionary nested in its values was replaced, which "
                               "leaves its earlier values undefined: the writer must send it whole");
  }
  const std::int64_t bytes = values.nbytes();
  if (bytes > max_bytes_ - entry.bytes) {
    throw InvalidDataError("dictionary " + std::to_string(id) + " is extended by deltas to over " +
                           std::to_string(max_bytes_) + " bytes (ipc::Limits::max_decompressed_bytes)");
  }
  entry.bytes += bytes;
  entry.deltas.push_back(std::move(values));
}

std::shared_ptr<const array::RecordBatch>* DictionaryStore::values_of(std::int64_t id) {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? nullptr : &known->second.values;
}

const std::shared_ptr<const array::RecordBatch>& DictionaryStore::whole(Entry& entry) {
  if (entry.deltas.empty()) return entry.values;
  std::vector<const array::RecordBatch*> parts{entry.values.get()};
  for (const array::RecordBatch& delta : entry.deltas) parts.push_back(&delta);
  auto together = std::make_shared<const array::RecordBatch>(concatenate(parts));
  entry.values = std::move(together);
  entry.deltas.clear();
  return entry.values;
}

std::vector<std::shared_ptr<const array::RecordBatch>> DictionaryStore::for_schema(const array::Schema& schema) {
  std::vector<std::shared_ptr<const array::RecordBatch>> found;
  found.reserve(schema.dictionaries().size());
  for (const array::DictionarySlot& slot : schema.dictionaries()) {
    const auto known = by_id_.find(slot.id);
    found.push_back(known == by_id_.end() ? nullptr : whole(known->second));
  }
  return found;
}

}  // namespace crossdock::ipc
