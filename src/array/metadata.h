#pragma once

#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Reads the metadata blob of an ArrowSchema: an int32 count, then for each pair an int32 length and the bytes of key
/// and value, in native byte order. Null means none. The C interface gives no size to check lengths against; negative
/// ones are refused with InvalidDataError that begins with `path`.
Metadata read_metadata(const char* blob, const std::string& path);

/// The other way; empty for no pairs (the pointer is then null). Throws InvalidDataError if a length passes int32.
std::string write_metadata(const Metadata& metadata, const std::string& path);

}  // namespace crossdock::array
