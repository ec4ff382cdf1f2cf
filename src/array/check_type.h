#pragma once

#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Checks one field's type against the columnar format: parameters in range, as many children as the type has, a map's
/// entries, a union's type ids, run ends, integer indices of a dictionary. Not its children. Throws InvalidDataError
/// that begins with `path`.
void check_type(const Field& field, const std::string& path);

}  // namespace crossdock::array
