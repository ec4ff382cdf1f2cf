#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "crossdock/session/transports.h"
#include "crossdock/transport/transport.h"

namespace crossdock::python {

/// Reads the option `wait`: "auto", "spin" or "block". Throws InvalidArgumentError for others.
inline transport::WaitMode wait_of(const std::string& name) {
  if (name == "auto") return transport::WaitMode::kAuto;
  if (name == "spin") return transport::WaitMode::kSpin;
  if (name == "block") return transport::WaitMode::kBlock;
  throw InvalidArgumentError("wait is \"auto\", \"spin\" or \"block\", not \"" + name + "\"");
}

/// Converts the option `checksum`. Nullopt: as the peer asks.
inline transport::Checksum checksum_of(std::optional<bool> wanted) noexcept {
  if (!wanted) return transport::Checksum::kAuto;
  return *wanted ? transport::Checksum::kOn : transport::Checksum::kOff;
}

/// Reads the option `validation`: "structure" or "full". Returns nullopt for nullopt: the origin of the data decides.
/// Throws InvalidArgumentError for others.
inline std::optional<array::Validation> validation_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "structure") return array::Validation::kStructure;
  if (*name == "full") return array::Validation::kFull;
  throw InvalidArgumentError("validation is \"structure\", \"full\" or None, not \"" + *name + "\"");
}

inline std::shared_ptr<const transport::TransportRegistry> transports(bool any_user,
                                                                      std::vector<std::uint32_t> other_users,
                                                                      std::string token, std::optional<bool> checksum) {
  session::TransportOptions options;
  options.shm.any_user = any_user;
  options.shm.other_users = std::move(other_users);
  options.tcp.token = std::move(token);
  options.tcp.checksum = checksum_of(checksum);
  return session::make_transports(options);
}

}  // namespace crossdock::python
