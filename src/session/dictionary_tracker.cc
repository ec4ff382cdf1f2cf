#include "session/dictionary_tracker.h"

#include <string>

#include "array/same_memory.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

bool DictionaryTracker::update(const array::RecordBatch& batch, const Send& send) {
  bool sent = false;
  const auto& slots = batch.schema->dictionaries();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i >= batch.dictionaries.size() || !batch.dictionaries[i]) continue;  // a column without values has none
    const std::shared_ptr<const array::RecordBatch>& values = batch.dictionaries[i];
    // Values refer to the dictionaries that were current when they were sent: if an inner dictionary is new, the outer
    // one must be sent again.
    const bool inner_sent = update(*values, send);
    std::shared_ptr<const array::RecordBatch>& seen = seen_[slots[i].id];
    if (!inner_sent && seen && array::same_memory(*seen, *values)) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (slots[j].id != slots[i].id || !batch.dictionaries[j]) continue;
      throw InvalidDataError("a batch has two columns that share the dictionary id " + std::to_string(slots[i].id) +
                             " but not the dictionary");
    }
    send(slots[i].id, *values);
    seen = values;
    sent = true;
  }
  return sent;
}

}  // namespace crossdock::session
