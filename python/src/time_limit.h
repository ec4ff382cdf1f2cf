#pragma once

#include <chrono>
#include <cstdint>

#include "crossdock/core/time_limit.h"

namespace crossdock::python {

/// Returns the time limit that the Python modules pass as a number of milliseconds; negative: none.
inline TimeLimit time_limit(std::int64_t ms) { return ms < 0 ? TimeLimit() : TimeLimit(std::chrono::milliseconds(ms)); }

}  // namespace crossdock::python
