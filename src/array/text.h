#pragma once

#include <string>
#include <string_view>

namespace crossdock::array {

/// `text` with control characters as \xNN: names come from peers and end up in messages on terminals.
std::string printable(std::string_view text);

/// The path of a field below `parent` (already printable): "trips.stops.item". A field without a name shows as its
/// position.
std::string child_path(const std::string& parent, std::string_view name, std::size_t position);

/// `field "trips.stops"`, as error messages begin.
std::string in_field(const std::string& path);

}  // namespace crossdock::array
