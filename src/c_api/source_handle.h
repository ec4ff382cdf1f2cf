#pragma once

#include <optional>

#include "crossdock/c_api/source.h"
#include "crossdock/session/source.h"

struct crossdock_source {
  std::optional<crossdock::session::Source> source{};  ///< Set before a caller sees the handle.
};
