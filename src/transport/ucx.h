#pragma once

#include <string>
#include <vector>

#include "crossdock/transport/options.h"

namespace crossdock::transport {

/// The result of looking for UCX's library.
struct UcxReport {
  bool found = false;
  std::string library{};             ///< The file; empty if not found.
  std::string version{};             ///< As in "1.13.1"; empty if not found.
  std::vector<std::string> tried{};  ///< A line for each library that couldn't be used, with the reason.
};

/// Looks for UCX's library, and closes it if nobody else uses it. Starts nothing of UCX.
UcxReport find_ucx(const UcxOptions& options = {});

}  // namespace crossdock::transport
