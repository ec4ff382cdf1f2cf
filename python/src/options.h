#pragma once

#include <optional>
#include <string>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "crossdock/transport/options.h"

namespace crossdock::python {

/// Reads the option `wait`: "auto", "spin" or "block". Throws InvalidArgumentError for others.
inline transport::WaitMode wait_of(const std::string& name) {
  if (name == "auto") return transport::WaitMode::kAuto;
  if (name == "spin") return transport::WaitMode::kSpin;
  if (name == "block") return transport::WaitMode::kBlock;
  throw InvalidArgumentError("wait must be \"auto\", \"spin\" or \"block\", not \"" + name + "\"");
}

/// Reads the option `validation`: "structure" or "full". Returns nullopt for nullopt: the origin of the data decides.
/// Throws InvalidArgumentError for others.
inline std::optional<array::Validation> validation_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "structure") return array::Validation::kStructure;
  if (*name == "full") return array::Validation::kFull;
  throw InvalidArgumentError("validation must be \"structure\", \"full\" or None, not \"" + *name + "\"");
}

}  // namespace crossdock::python
