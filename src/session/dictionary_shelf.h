#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::session {

/// The dictionaries that a stream has delivered, by id. A batch takes what is there when it arrives; a replacement
/// changes later batches only.
class DictionaryShelf {
 public:
  /// The values of `id`, complete with the dictionaries that they need themselves.
  void put(std::int64_t id, array::RecordBatch values);
  /// One entry per slot of `schema`. A dictionary that hasn't come is an empty one: its column may be all null.
  std::vector<std::shared_ptr<const array::RecordBatch>> for_schema(const array::Schema& schema) const;

 private:
  std::unordered_map<std::int64_t, std::shared_ptr<const array::RecordBatch>> by_id_;
};

}  // namespace crossdock::session
