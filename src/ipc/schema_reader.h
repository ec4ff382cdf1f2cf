#pragma once

#include <memory>

#include "crossdock/array/schema.h"
#include "flatbuf.h"

namespace crossdock::ipc {

/// A verified Schema table as a schema of ours. Throws UnsupportedTypeError (foreign endianness, types that
/// array::TypeId lacks) or InvalidDataError; both begin with `where` and name the field's path.
std::shared_ptr<const array::Schema> read_schema(const flatbuf::Schema& schema, const Limits& limits,
                                                 const char* where);

}  // namespace crossdock::ipc
