#pragma once

#include <cstddef>
#include <string>

#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Returns the printable path of a node of `schema`. For error messages only, because it searches.
std::string node_path(const Schema& schema, std::size_t node);

/// Returns the index of the first node after the subtree that begins at `node`.
inline std::size_t subtree_end(const Schema& schema, std::size_t node) noexcept {
  return node + static_cast<std::size_t>(schema.nodes()[node].n_nodes);
}

/// The place of a node that may be within dictionaries, for the path in error messages.
struct Place {
  const Place* parent;  ///< The node whose dictionary it is in; null at the top.
  const Schema* schema;
  std::size_t node;
};

/// Returns the path, as in "trips.stops.dictionary.item"; empty if `place` is null.
std::string path_of(const Place* place);

}  // namespace crossdock::array
