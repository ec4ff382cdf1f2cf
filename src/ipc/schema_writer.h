#pragma once

#include <cstdint>
#include <span>

#include "crossdock/array/schema.h"
#include "flatbuf.h"

namespace crossdock::ipc {

/// Throws UnsupportedTypeError that names the field's path for what IPC can't say (a dictionary whose values are
/// themselves indices of one), InvalidDataError for names and metadata of more than a flatbuffer holds.
flatbuffers::Offset<flatbuf::Schema> write_schema(flatbuffers::FlatBufferBuilder& builder, const array::Schema& schema,
                                                  std::span<const std::int64_t> features);

/// No pairs are a null offset. Throws InvalidDataError for more than a flatbuffer holds.
flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>> write_metadata(
    flatbuffers::FlatBufferBuilder& builder, const array::Metadata& metadata);

}  // namespace crossdock::ipc
