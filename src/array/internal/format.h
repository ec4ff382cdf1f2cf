#pragma once

#include <string>
#include <string_view>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Returns the type of a format string of the C data interface ("format strings" in the specification). Map's
/// keys_sorted is a flag there, not part of the string. Throws InvalidDataError (malformed) or UnsupportedTypeError (a
/// format that the specification doesn't have), with `path` and the format.
Type parse_format(std::string_view format, const std::string& path);

/// Returns the format string of a type. `type` has passed check_type, so this can't fail.
std::string write_format(const Type& type);

}  // namespace crossdock::array
