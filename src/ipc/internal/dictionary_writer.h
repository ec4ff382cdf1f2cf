#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "crossdock/array/record_batch.h"

namespace crossdock::ipc {

/// Records which dictionaries were written, and finds those that must be written before a batch.
class DictionaryWriter {
 public:
  enum class Change : std::uint8_t { kNone, kNew, kDelta, kReplacement };
  /// `values` are normalized. For a delta they are the appended ones only.
  using Write = std::function<void(std::int64_t id, const array::RecordBatch& values, Change change)>;

  /// Calls `write` for every dictionary of `batch` that changed, the innermost first.
  void update(const array::RecordBatch& batch, const Write& write);

 private:
  struct Written {
    std::shared_ptr<const array::RecordBatch> given;  // kept, so that its address isn't reused
    array::RecordBatch values;                        // normalized
  };
  /// Writes one dictionary, and those within its values, if it changed. Returns the change.
  Change update_one(std::int64_t id, const std::shared_ptr<const array::RecordBatch>& given, const Write& write);

  std::unordered_map<std::int64_t, Written> written_;
};

}  // namespace crossdock::ipc
