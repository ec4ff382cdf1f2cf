#pragma once

#include <cstdint>
#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Returns the batch in a schema that Conversion accepts with Effort::kRead. Throws as Conversion::apply().
RecordBatch reencoded(RecordBatch batch, const std::shared_ptr<const Schema>& to, std::int64_t* copied);

}  // namespace crossdock::array
