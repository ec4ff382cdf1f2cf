#pragma once

#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Reads the metadata blob of an ArrowSchema: an int32 count, then for each pair an int32 length and the bytes of key
/// and value, in native byte order. Null means no pairs. The C interface gives no size to check lengths against. Throws
/// InvalidDataError, which begins with `path`, for negative lengths.
Metadata read_metadata(const char* blob, const std::string& path);

/// Writes a metadata blob; empty for no pairs (the pointer is then null). Throws InvalidDataError if a length exceeds
/// int32.
std::string write_metadata(const Metadata& metadata, const std::string& path);

}  // namespace crossdock::array
