#pragma once

#include <cstddef>
#include <vector>

#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Returns the header of a batch that has only the columns `indices` of `schema`, with the ranges of their buffers in
/// the whole body. Appends to `*buffers` the index that each of its buffers has in `header`. The header must be one
/// that Message::batch() made for `schema`, and the indices must be columns of it.
BatchHeader select(const BatchHeader& header, const array::Schema& schema, const std::vector<int>& indices,
                   std::vector<std::size_t>* buffers);

}  // namespace crossdock::ipc
