#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crossdock/array/type.h"
#include "flatbuf.h"

namespace crossdock::ipc {

/// What a flatbuffer says about a type, or why it can't be had: one of the two is set.
struct ReadType {
  std::optional<array::Type> type;
  std::string unsupported;  ///< A type that this version doesn't know: its number.
  std::string invalid;      ///< A type that doesn't exist: what is wrong with it.
};

/// The type of `field`'s values, not looking at its dictionary. Total over hostile input.
ReadType read_type(const flatbuf::Field& field);
ReadType read_type(const flatbuf::Tensor& tensor);
/// The type of a dictionary's indices; absent means int32.
ReadType read_index_type(const flatbuf::Int* index_type);

struct WrittenType {
  flatbuf::Type kind;
  flatbuffers::Offset<void> table;
};

WrittenType write_type(flatbuffers::FlatBufferBuilder& builder, const array::Type& type);
/// `type` is one of the integer types.
flatbuffers::Offset<flatbuf::Int> write_integer(flatbuffers::FlatBufferBuilder& builder, array::TypeId type);

}  // namespace crossdock::ipc
