#include "session/table_version.h"

#include <charconv>

#include "array/metadata.h"
#include "core/bytes.h"
#include "ipc/metadata.h"

namespace crossdock::session {

std::vector<std::byte> schema_message(const array::Schema& schema, std::int64_t version) {
  array::Metadata metadata;
  if (version >= 0) metadata.emplace_back(kVersionKey, std::to_string(version));
  ipc::Encoder encoder;
  const ByteSpan message = encoder.schema(schema, {}, metadata);
  return {message.begin(), message.end()};
}

std::int64_t version_in(const array::Metadata& metadata) noexcept {
  const std::string* const text = array::find_value(metadata, kVersionKey);
  if (text == nullptr) return -1;
  std::int64_t version = -1;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, version);
  return error == std::errc() && stop == end && version >= 0 ? version : -1;
}

}  // namespace crossdock::session
