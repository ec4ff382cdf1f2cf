#pragma once

#include <arrow_file_generated.h>
#include <arrow_message_generated.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Verifies that every table, vector and string of the flatbuffer lies within `bytes`, and returns the root table. The
/// verifier doesn't check absent members (null), enum values out of range, and the meaning of integers: the caller
/// must. `bytes` must be 8-aligned. Throws InvalidDataError, which begins with `where`.
template <class Root>
const Root* verified_root(ByteSpan bytes, const Limits& limits, const char* where) {
  // FlatBuffers' offsets are limited to 2 GiB, and its verifier asserts that the input is not larger.
  const auto most = std::min<std::int64_t>(limits.max_metadata_bytes, std::numeric_limits<std::int32_t>::max() - 1);
  if (bytes.size() > static_cast<std::uint64_t>(most)) {
    throw InvalidDataError(std::string(where) + ": " + std::to_string(bytes.size()) +
                           " bytes of metadata are over the limit of " + std::to_string(most));
  }
  flatbuffers::Verifier::Options options;
  // A field takes two levels (itself and its type), and the tables around the schema take a few more. The exact count
  // of fields is checked where they are read.
  options.max_depth = static_cast<flatbuffers::uoffset_t>(limits.max_depth) + 8;
  // Tables may be shared within a flatbuffer, so that a small one could cause very many visits: their number is limited
  // by the size.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 4 + 16);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), options);
  if (!verifier.VerifyBuffer<Root>(nullptr)) {
    throw InvalidDataError(std::string(where) + ": the " + std::to_string(bytes.size()) +
                           " bytes of metadata aren't a well-formed flatbuffer, or are nested deeper than " +
                           std::to_string(limits.max_depth) + " levels");
  }
  return flatbuffers::GetRoot<Root>(reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

/// Returns `bytes`, or, if they aren't 8-aligned, a copy that `*copy` owns. Doesn't copy more than the limit, which
/// verified_root() refuses.
ByteSpan aligned(ByteSpan bytes, const Limits& limits, std::shared_ptr<const void>* copy);

/// Returns the kind of a message. Throws InvalidDataError if it has none, UnsupportedTypeError for an unknown one.
MessageKind kind_of(const flatbuf::Message& message, const char* where);

/// Returns the codec of a body; absent means none. Throws UnsupportedTypeError for an unknown one.
Codec read_codec(const flatbuf::BodyCompression* compression, const char* where);

/// Accepts versions V4 and V5; throws UnsupportedTypeError for any other.
inline void check_version(flatbuf::MetadataVersion version, const char* where) {
  if (version == flatbuf::MetadataVersion::V5 || version == flatbuf::MetadataVersion::V4) return;
  const auto number = static_cast<int>(version) + 1;
  throw UnsupportedTypeError(std::string(where) + ": metadata version V" + std::to_string(number) +
                             " isn't supported; this version reads V4 and V5, which Arrow writes since 0.8. Write the "
                             "data again with a current Arrow");
}

}  // namespace crossdock::ipc
