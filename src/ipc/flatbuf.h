#pragma once

#include <arrow_file_generated.h>
#include <arrow_message_generated.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "crossdock/core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// The flatbuffer's root table, once every table, vector and string in it was found to lie within `bytes`. What the
/// verifier leaves to us: absent members (null), enum values out of range, and what integers mean.
/// `bytes` must be 8-aligned. Throws InvalidDataError that begins with `where`.
template <class Root>
const Root* verified_root(ByteSpan bytes, const Limits& limits, const char* where) {
  // FlatBuffers' own offsets end at 2 GiB, and its verifier asserts that it isn't given more.
  const auto most = std::min<std::int64_t>(limits.max_metadata_bytes, std::numeric_limits<std::int32_t>::max() - 1);
  if (bytes.size() > static_cast<std::uint64_t>(most)) {
    throw InvalidDataError(std::string(where) + ": " + std::to_string(bytes.size()) +
                           " bytes of metadata are over the limit of " + std::to_string(most));
  }
  flatbuffers::Verifier::Options options;
  // A field costs two levels (itself and its type), and the tables around the schema a few more. Fields are counted
  // exactly where they are read.
  options.max_depth = static_cast<flatbuffers::uoffset_t>(limits.max_depth) + 8;
  // Tables may be shared within a flatbuffer, so a small one could unfold into very many visits: bound them by the
  // size.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 4 + 16);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), options);
  if (!verifier.VerifyBuffer<Root>(nullptr)) {
    throw InvalidDataError(std::string(where) + ": the " + std::to_string(bytes.size()) +
                           " bytes of metadata aren't a well-formed flatbuffer, or are nested deeper than " +
                           std::to_string(limits.max_depth) + " levels");
  }
  return flatbuffers::GetRoot<Root>(reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

/// Versions V4 and V5 pass; any other throws UnsupportedTypeError.
inline void check_version(flatbuf::MetadataVersion version, const char* where) {
  if (version == flatbuf::MetadataVersion::V5 || version == flatbuf::MetadataVersion::V4) return;
  const auto number = static_cast<int>(version) + 1;
  throw UnsupportedTypeError(std::string(where) + ": metadata version V" + std::to_string(number) +
                             " isn't read; this version reads V4 and V5, which Arrow writes since 0.8. Write the data "
                             "again with a current Arrow");
}

}  // namespace crossdock::ipc
