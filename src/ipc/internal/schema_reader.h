#pragma once

#include <memory>

#include "crossdock/array/schema.h"
#include "ipc/internal/flatbuf.h"

namespace crossdock::ipc {

/// Converts a verified Schema table, for data of either endianness. Throws UnsupportedTypeError (types of a later
/// format) or InvalidDataError; both begin with `where` and name the field's path.
SchemaInfo read_schema_info(const flatbuf::Schema& schema, const Limits& limits, const char* where);
/// The same for little-endian data; throws UnsupportedTypeError for other data.
std::shared_ptr<const array::Schema> read_schema(const flatbuf::Schema& schema, const Limits& limits,
                                                 const char* where);

/// Copies verified pairs; their size is limited as in a schema. Null means no pairs.
array::Metadata read_metadata(const flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>* pairs,
                              const Limits& limits, const char* where);

}  // namespace crossdock::ipc
