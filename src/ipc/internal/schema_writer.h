#pragma once

#include <cstdint>
#include <span>

#include "crossdock/array/schema.h"
#include "ipc/internal/flatbuf.h"

namespace crossdock::ipc {

/// Writes a schema. Throws UnsupportedTypeError, which names the field's path, for a schema that IPC can't describe (a
/// dictionary whose values are themselves indices of one); InvalidDataError for names and metadata larger than a
/// flatbuffer holds.
flatbuffers::Offset<flatbuf::Schema> write_schema(flatbuffers::FlatBufferBuilder& builder, const array::Schema& schema,
                                                  std::span<const std::int64_t> features);

/// Writes the pairs; returns a null offset if there are none. Throws InvalidDataError for more than a flatbuffer holds.
flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>> write_metadata(
    flatbuffers::FlatBufferBuilder& builder, const array::Metadata& metadata);

}  // namespace crossdock::ipc
