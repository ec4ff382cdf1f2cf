#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "crossdock/array/record_batch.h"

namespace crossdock::session {

/// Knows which dictionaries a stream has sent, so that each one is sent before the first batch that needs it, and again
/// only when it has changed. A change is detected by the addresses of its buffers; their bytes are never compared.
class DictionaryTracker {
 public:
  using Send = std::function<void(std::int64_t id, const array::RecordBatch& values)>;
  /// Calls `send` for each dictionary of `batch` that is new, the innermost first. Returns whether there was any.
  /// Throws InvalidDataError if two columns share an id but not the memory.
  bool update(const array::RecordBatch& batch, const Send& send);

 private:
  // By id. The dictionaries are kept alive, so that no other dictionary can get the same addresses.
  std::unordered_map<std::int64_t, std::shared_ptr<const array::RecordBatch>> seen_;
};

}  // namespace crossdock::session
