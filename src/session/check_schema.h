#pragma once

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

/// Checks that a batch of a source has the schema that the source announced. Consumers decode its batches by that
/// schema, and would otherwise read an integer as a float, for example. In most cases this only compares two pointers.
/// Throws InvalidDataError.
inline void check_schema(const array::RecordBatch& batch, const array::Schema& announced) {
  if (batch.schema.get() == &announced) return;
  if (batch.schema && batch.schema->fields() == announced.fields()) return;
  throw InvalidDataError("the schema of a batch differs from the schema that its source announced, which is\n" +
                         announced.to_string() + "\nThe batch has\n" +
                         (batch.schema ? batch.schema->to_string() : std::string("none")));
}

}  // namespace crossdock::session
