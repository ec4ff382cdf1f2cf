#pragma once

#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/session/client.h"

namespace crossdock::session {

/// Returns the batches of a table in which some rows are: none, or one range. Reads `statistics` for it
/// (Client::batch_statistics()) to the end, and trusts nothing in it. Sets `rows->first` to the first row's place among
/// the rows of these batches, and `*all` to the number of all their rows. Throws InvalidDataError if it isn't such a
/// table, and the errors of its stream.
std::vector<BatchRange> batches_of(array::BatchStream& statistics, RowRange* rows, std::uint64_t* all);

}  // namespace crossdock::session
