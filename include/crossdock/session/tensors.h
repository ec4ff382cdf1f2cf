#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/array/schema.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"

namespace crossdock::session {

/// A tensor of several that are published under one name.
struct NamedTensor {
  /// Where it is among the others: the keys of nested dictionaries, outermost first, each in UTF-8. Empty for the only
  /// tensor of a name.
  std::vector<std::string> path{};
  array::Tensor tensor{};  ///< Shares its memory with other copies; the memory is kept as long as this is held.
};

/// What the schema of a published name says about its tensors. A plain value.
struct TensorContent {
  bool single = true;                 ///< One tensor without a path, for Client::tensor(); else for Client::tensors().
  std::int64_t count = 1;             ///< Number of tensors; -1: the server doesn't say.
  std::string type{};                 ///< Of a single one: array::element_type_name(); empty: the server doesn't say.
  std::vector<std::int64_t> shape{};  ///< Of a single one.
};

/// Returns what a schema says about tensors (docs/reference/protocol.md, "Tensors"), or nothing for a table's schema.
/// Texts and numbers are the server's, and nothing depends on them.
CROSSDOCK_EXPORT std::optional<TensorContent> tensor_content(const array::Schema& schema);

}  // namespace crossdock::session
