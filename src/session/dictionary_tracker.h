#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "crossdock/array/record_batch.h"

namespace crossdock::session {

/// Knows which dictionaries a stream has sent, so that each is sent before the first batch that needs it, and again
/// only when it has changed. "Changed" is checked by the addresses of its buffers, never by their bytes.
class DictionaryTracker {
 public:
  using Send = std::function<void(std::int64_t id, const array::RecordBatch& values)>;
  /// Calls `send` for each dictionary of `batch` that is new, the innermost first. Whether there was any. Throws
  /// InvalidDataError if two columns share an id but not the memory.
  bool update(const array::RecordBatch& batch, const Send& send);

 private:
  // By id. Held, so that its addresses aren't used again by another dictionary.
  std::unordered_map<std::int64_t, std::shared_ptr<const array::RecordBatch>> seen_;
};

}  // namespace crossdock::session
