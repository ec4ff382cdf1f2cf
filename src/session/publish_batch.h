#pragma once

#include <memory>

#include "crossdock/array/record_batch.h"
#include "session/published_table.h"

namespace crossdock::session {

/// Publishes a table of one batch of this server's own, without dictionaries, whose buffers are copied once into a
/// region with the name `region`. `version` as of publish_stream(). Throws ResourceError.
std::shared_ptr<const PublishedTable> publish_batch(const array::RecordBatch& batch, const char* region,
                                                    std::int64_t version = -1);

}  // namespace crossdock::session
