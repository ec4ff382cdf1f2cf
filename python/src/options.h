#pragma once

#include <string>

#include "crossdock/core/error.h"
#include "crossdock/transport/transport.h"

namespace crossdock::python {

/// "auto", "spin" or "block".
inline transport::Wait wait_of(const std::string& name) {
  if (name == "auto") return transport::Wait::kAuto;
  if (name == "spin") return transport::Wait::kSpin;
  if (name == "block") return transport::Wait::kBlock;
  throw InvalidArgumentError("wait is \"auto\", \"spin\" or \"block\", not \"" + name + "\"");
}

}  // namespace crossdock::python
