#pragma once

#include <cstddef>
#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Where a node of `schema` is, printable: for error messages only, it searches.
std::string node_path(const Schema& schema, std::size_t node);

/// The index of the first node after the subtree that begins at `node`.
std::size_t subtree_end(const Schema& schema, std::size_t node) noexcept;

/// Where a node stands that may be within dictionaries: for the path of what is wrong there.
struct Place {
  const Place* parent;  ///< The node whose dictionary it is in; null at the top.
  const Schema* schema;
  std::size_t node;
};

/// "trips.stops.dictionary.item"; empty for no place.
std::string path_of(const Place* place);

}  // namespace crossdock::array
