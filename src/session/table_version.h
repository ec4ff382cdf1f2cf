#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/array/schema.h"

namespace crossdock::session {

/// The version of a table (CatalogEntry::version) in the custom metadata of its Schema message, so that whoever
/// receives a table knows which one it is: a catalog that was read before may tell another version.
inline constexpr const char* kVersionKey = "crossdock:version";

/// Returns the Schema message of a table with this version; -1: without one.
std::vector<std::byte> schema_message(const array::Schema& schema, std::int64_t version);
/// Returns the version in a Schema message's metadata; -1 if it has none, or none that is a version.
std::int64_t version_in(const array::Metadata& metadata) noexcept;

}  // namespace crossdock::session
