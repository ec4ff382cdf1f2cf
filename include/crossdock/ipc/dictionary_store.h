#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// The dictionaries that a stream or file has delivered, by id. A batch takes what is there when it is made; what comes
/// later changes later batches only. One thread at a time; what it gives away is immutable.
class CROSSDOCK_EXPORT DictionaryStore {
 public:
  /// Limits::max_decompressed_bytes bounds what deltas may make of one dictionary: they can say the same bytes again
  /// and again.
  explicit DictionaryStore(const Limits& limits = {}) : max_bytes_(limits.max_decompressed_bytes) {}
  /// The values of `id`, complete with the dictionaries that they need themselves (for_schema of their schema). A delta
  /// is appended to what is there: into new memory, as late as somebody asks for it. Throws InvalidDataError for a
  /// delta of a dictionary that hasn't come, or over the limit; UnsupportedTypeError for one whose values' own
  /// dictionary was replaced since, as what the earlier values mean would change.
  void put(std::int64_t id, array::RecordBatch values, bool is_delta);

  /// One entry per slot of `schema`; null where the dictionary hasn't come: its column may be all null. Throws
  /// InvalidDataError if deltas don't fit together (offsets beyond their width).
  std::vector<std::shared_ptr<const array::RecordBatch>> for_schema(const array::Schema& schema);

 private:
  struct Entry {
    std::shared_ptr<const array::RecordBatch> values;
    std::vector<array::RecordBatch> deltas;         // not appended yet
    std::vector<std::uint64_t> inner_replacements;  // of the dictionaries in its values, when it came
    std::uint64_t replacements = 0;
    std::int64_t bytes = 0;  // with the deltas
  };
  std::vector<std::uint64_t> replacements_in(const array::Schema& schema) const;
  const std::shared_ptr<const array::RecordBatch>& whole(Entry& entry);

  std::int64_t max_bytes_;
  std::unordered_map<std::int64_t, Entry> by_id_;
};

}  // namespace crossdock::ipc
