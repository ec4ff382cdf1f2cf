#pragma once

#include <string>
#include <string_view>

#include "core/text.h"

namespace crossdock::array {

/// Returns the path of a field below `parent` (already printable): "trips.stops.item". A field without a name shows as
/// its position.
std::string child_path(const std::string& parent, std::string_view name, std::size_t position);

/// Returns the beginning of an error message, as in `field "trips.stops"`.
std::string in_field(const std::string& path);

/// Throws InvalidDataError: `what` is wrong in the field at `path`.
[[noreturn]] void throw_invalid(const std::string& path, const std::string& what);

}  // namespace crossdock::array
