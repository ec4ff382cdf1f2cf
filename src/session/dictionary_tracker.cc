#include "session/dictionary_tracker.h"

#include <algorithm>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

bool same(const array::BufferView& a, const array::BufferView& b) { return a.data == b.data && a.size == b.size; }
bool same(const array::Node& a, const array::Node& b) { return a.length == b.length && a.offset == b.offset; }

template <typename T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return same(x, y); });
}

}  // namespace

bool DictionaryTracker::update(const array::RecordBatch& batch, const Send& send) {
  bool sent = false;
  const auto& slots = batch.schema->dictionaries();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i >= batch.dictionaries.size() || !batch.dictionaries[i]) continue;  // a column of no values has none
    const array::RecordBatch& values = *batch.dictionaries[i];
    // Values go with the dictionaries that were in force when they came: new ones below ask for new values above.
    const bool inner_sent = update(values, send);
    Seen& seen = seen_[slots[i].id];
    if (!inner_sent && seen.owner && all_same(seen.buffers, values.buffers) && all_same(seen.nodes, values.nodes))
      continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (slots[j].id != slots[i].id || !batch.dictionaries[j]) continue;
      throw InvalidDataError("a batch has two columns that share the dictionary id " + std::to_string(slots[i].id) +
                             " but not the dictionary");
    }
    send(slots[i].id, values);
    seen = {values.buffers, values.nodes, values.owner ? values.owner : batch.dictionaries[i]};
    sent = true;
  }
  return sent;
}

}  // namespace crossdock::session
