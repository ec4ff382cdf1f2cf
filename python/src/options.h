#pragma once

#include <string>

#include "core/text.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "crossdock/transport/options.h"
#include "transport/transport.h"

namespace crossdock::python {

/// Reads the option `wait`: "auto", "spin" or "block". Throws InvalidArgumentError for others.
inline transport::WaitMode wait_of(const std::string& name) {
  if (name == "auto") return transport::WaitMode::kAuto;
  if (name == "spin") return transport::WaitMode::kSpin;
  if (name == "block") return transport::WaitMode::kBlock;
  throw InvalidArgumentError("wait must be \"auto\", \"spin\" or \"block\", not \"" + excerpt(name) + "\"");
}

/// Reads the option `way`: "map", "read" or "message". Throws InvalidArgumentError for others.
inline transport::Way way_of(const std::string& name) {
  if (const auto way = transport::way_named(name)) return *way;
  throw InvalidArgumentError("way must be \"map\", \"read\" or \"message\", not \"" + excerpt(name) + "\"");
}

/// Reads the option `validation`: "structure" or "full". Throws InvalidArgumentError for others.
inline array::Validation validation_of(const std::string& name) {
  if (name == "structure") return array::Validation::kStructure;
  if (name == "full") return array::Validation::kFull;
  throw InvalidArgumentError("validation must be \"structure\" or \"full\", not \"" + excerpt(name) + "\"");
}

}  // namespace crossdock::python
