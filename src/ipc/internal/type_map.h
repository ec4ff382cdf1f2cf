#pragma once

#include <optional>
#include <string>

#include "crossdock/array/schema.h"
#include "ipc/internal/flatbuf.h"

namespace crossdock::ipc {

/// The type that a flatbuffer describes, or the reason why it can't be read: exactly one is set.
struct ReadType {
  std::optional<array::Type> type;
  std::string unsupported;  ///< Number of a type that this version doesn't know.
  std::string invalid;      ///< Error in a type that doesn't exist.
};

/// Reads the type of `field`'s values; ignores its dictionary. Accepts any hostile input.
ReadType read_type(const flatbuf::Field& field);
ReadType read_type(const flatbuf::Tensor& tensor);
/// Reads the type of a dictionary's indices; absent means int32.
ReadType read_index_type(const flatbuf::Int* index_type);

struct WrittenType {
  flatbuf::Type kind;
  flatbuffers::Offset<void> table;
};

WrittenType write_type(flatbuffers::FlatBufferBuilder& builder, const array::Type& type);
/// `type` must be one of the integer types.
flatbuffers::Offset<flatbuf::Int> write_integer(flatbuffers::FlatBufferBuilder& builder, array::TypeId type);

}  // namespace crossdock::ipc
