#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dissociated/request.h"
#include "session/published_table.h"

namespace crossdock::session {

/// Returns the indices of a table's messages that give its batches in these ranges: the schema's, those of the batches,
/// and those of the dictionaries that are in force then. Batches behind the last one don't exist, and are left out.
/// `ranges`: as in dissociated::Request.
std::vector<std::uint32_t> selected_messages(const PublishedTable& table,
                                             std::span<const dissociated::BatchRange> ranges);

}  // namespace crossdock::session
