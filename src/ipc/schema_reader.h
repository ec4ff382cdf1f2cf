#pragma once

#include <memory>

#include "crossdock/array/schema.h"
#include "flatbuf.h"

namespace crossdock::ipc {

/// A verified Schema table as a schema of ours, of data of either endianness. Throws UnsupportedTypeError (types of a
/// later format) or InvalidDataError; both begin with `where` and name the field's path.
SchemaInfo read_schema_info(const flatbuf::Schema& schema, const Limits& limits, const char* where);
/// The same of little-endian data; of other data UnsupportedTypeError.
std::shared_ptr<const array::Schema> read_schema(const flatbuf::Schema& schema, const Limits& limits,
                                                 const char* where);

/// Verified pairs, copied; what they take is bounded as in a schema. Null means none.
array::Metadata read_metadata(const flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>* pairs,
                              const Limits& limits, const char* where);

}  // namespace crossdock::ipc
