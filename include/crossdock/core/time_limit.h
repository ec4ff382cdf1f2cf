#pragma once

#include <optional>

#include "crossdock/core/chrono.h"

namespace crossdock {

/// The most time that a call or an operation may take, as in `5s`; std::nullopt: no limit. Zero and less: it doesn't
/// wait.
using TimeLimit = std::optional<std::chrono::milliseconds>;

}  // namespace crossdock
