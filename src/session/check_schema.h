#pragma once

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

/// What a source gives must be of the schema that it announced: consumers read its batches by that, and would take an
/// integer for a float. Mostly a comparison of two pointers. Throws InvalidDataError.
inline void check_schema(const array::RecordBatch& batch, const array::Schema& announced) {
  if (batch.schema.get() == &announced) return;
  if (batch.schema && batch.schema->fields() == announced.fields()) return;
  throw InvalidDataError("a source gave a batch of another schema than its own, which is\n" + announced.to_string() +
                         "\nThe batch has\n" + (batch.schema ? batch.schema->to_string() : std::string("none")));
}

}  // namespace crossdock::session
