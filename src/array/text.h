#pragma once

#include <string>
#include <string_view>

#include "crossdock/core/text.h"

namespace crossdock::array {

/// The path of a field below `parent` (already printable): "trips.stops.item". A field without a name shows as its
/// position.
std::string child_path(const std::string& parent, std::string_view name, std::size_t position);

/// `field "trips.stops"`, as error messages begin.
std::string in_field(const std::string& path);

}  // namespace crossdock::array
