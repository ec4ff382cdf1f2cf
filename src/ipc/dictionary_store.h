#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Keeps the dictionaries that a stream or file has delivered, by id. A batch gets the dictionaries that exist when it
/// is made; later ones change later batches only. One thread at a time; the returned dictionaries are immutable.
class DictionaryStore {
 public:
  /// Limits::max_decompressed_bytes limits the size that deltas may give one dictionary, because deltas can repeat the
  /// same bytes many times.
  explicit DictionaryStore(const Limits& limits = {}) : max_bytes_(limits.max_decompressed_bytes) {}
  /// Stores the values of `id`. They must be complete with the dictionaries that they need themselves (for_schema of
  /// their schema). A delta is appended to the existing values, in new memory, when the dictionary is next asked for.
  /// Throws InvalidDataError for a delta of a dictionary that hasn't arrived, or over the limit. Throws
  /// UnsupportedTypeError for a delta if a dictionary within the values was replaced since, because the meaning of the
  /// earlier values would change.
  void put(std::int64_t id, array::RecordBatch values, bool is_delta);

  /// The values of `id` without the deltas that aren't appended yet; null: none have arrived. The caller may replace
  /// them by the same values elsewhere: what is put together must be in memory of the host.
  std::shared_ptr<const array::RecordBatch>* values_of(std::int64_t id);

  /// Returns one entry per slot of `schema`; null if the dictionary hasn't arrived, since its column may be all null.
  /// Throws InvalidDataError if deltas don't fit together (offsets beyond their width).
  std::vector<std::shared_ptr<const array::RecordBatch>> for_schema(const array::Schema& schema);

 private:
  struct Entry {
    std::shared_ptr<const array::RecordBatch> values;
    std::vector<array::RecordBatch> deltas;         // not appended yet
    std::vector<std::uint64_t> inner_replacements;  // counts for the dictionaries in its values, on arrival
    std::uint64_t replacements = 0;
    std::int64_t bytes = 0;  // with the deltas
  };
  std::vector<std::uint64_t> replacements_in(const array::Schema& schema) const;
  const std::shared_ptr<const array::RecordBatch>& whole(Entry& entry);

  std::int64_t max_bytes_;
  std::unordered_map<std::int64_t, Entry> by_id_;
};

}  // namespace crossdock::ipc
