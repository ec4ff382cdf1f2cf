#pragma once

#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Checks one field's type against the columnar format: parameters in range, the number of children of the type, a
/// map's entries, a union's type ids, run ends, integer indices of a dictionary. Doesn't check its children. Throws
/// InvalidDataError, which begins with `path`.
void check_type(const Field& field, const std::string& path);

/// Throws InvalidDataError, which begins with `path`, for a field at a `depth` over kMaxDepth, and if a schema has
/// `count` fields, over kMaxFields.
void check_limits(std::int64_t count, int depth, const std::string& path);

}  // namespace crossdock::array
