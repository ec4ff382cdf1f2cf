#pragma once

#include <optional>
#include <utility>

#include "crossdock/session/client.h"

namespace crossdock::testing {

/// Calls try_next(). Returns false if nothing has arrived; else sets `*batch` to the next one, or to nullopt at the end
/// of the stream. Throws the error that ended it.
inline bool poll_next(session::Reader& reader, std::optional<array::RecordBatch>* batch) {
  session::Polled found = reader.try_next();
  const bool arrived = found.arrived();
  *batch = std::move(found.batch);
  return arrived;
}

}  // namespace crossdock::testing
