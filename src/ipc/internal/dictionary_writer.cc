#include "ipc/internal/dictionary_writer.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "array/same_memory.h"
#include "crossdock/core/error.h"
#include "ipc/internal/starts_with.h"

namespace crossdock::ipc {
namespace {

array::RecordBatch normal(array::RecordBatch batch) {
  std::int64_t copied = 0;
  return array::normalized(std::move(batch), &copied, array::Offsets::kFromZero);
}

/// Returns the rows of one column from `first` on.
array::RecordBatch rest(array::RecordBatch values, std::int64_t first) {
  values.num_rows -= first;
  values.nodes.front().length -= first;
  values.nodes.front().offset += first;
  values.nodes.front().null_count = values.nodes.front().null_count == 0 ? 0 : -1;
  return normal(std::move(values));
}

}  // namespace

void DictionaryWriter::update(const array::RecordBatch& batch, const Write& write) {
  const auto& slots = batch.schema->dictionaries();
  std::unordered_set<std::int64_t> seen;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!batch.dictionaries[i]) continue;  // a column without values may have no dictionary
    const bool again = !seen.insert(slots[i].id).second;
    if (update_one(slots[i].id, batch.dictionaries[i], write) != Change::kNone && again) {
      throw InvalidDataError("a batch has two columns that share the dictionary id " + std::to_string(slots[i].id) +
                             " but not the dictionary");
    }
  }
}

DictionaryWriter::Change DictionaryWriter::update_one(std::int64_t id,
                                                      const std::shared_ptr<const array::RecordBatch>& given,
                                                      const Write& write) {
  Change inner = Change::kNone;
  const auto& slots = given->schema->dictionaries();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (given->dictionaries[i]) inner = std::max(inner, update_one(slots[i].id, given->dictionaries[i], write));
  }
  const auto known = written_.find(id);
  if (known == written_.end()) {
    array::RecordBatch values = normal(*given);
    write(id, values, Change::kNew);
    written_.emplace(id, Written{given, std::move(values)});
    return Change::kNew;
  }
  Written& written = known->second;
  // The same indices into other values have another meaning.
  const bool inner_holds = inner != Change::kReplacement;
  // Readers make a new object for each batch that refers to a dictionary, so the memory is compared, too.
  if (inner_holds && (written.given == given || array::same_memory(*written.given, *given)))
    return inner == Change::kNone ? Change::kNone : Change::kDelta;
  array::RecordBatch values = normal(*given);
  const std::int64_t before = written.values.num_rows;
  Change change = Change::kReplacement;
  if (inner_holds && values.num_rows >= before && starts_with(values, written.values)) {
    change = values.num_rows == before ? Change::kNone : Change::kDelta;
  }
  if (change == Change::kDelta) {
    write(id, rest(values, before), change);
  } else if (change == Change::kReplacement) {
    write(id, values, change);
  }
  written = {given, std::move(values)};
  return std::max(change, inner_holds ? inner : change);
}

}  // namespace crossdock::ipc
