#pragma once

#include <string_view>

#include "crossdock/core/function.h"

namespace crossdock {

/// How grave a log line is, by the numbers of Python's module logging.
enum class LogLevel {
  kDebug = 10,    ///< Details, for the search for a fault.
  kInfo = 20,     ///< Ordinary events, such as a request that was refused or a copy by way of the host.
  kWarning = 30,  ///< A peer that broke the rules, a stream that failed, an upstream that can't be reached.
  kError = 40,    ///< Work that this end itself can't do.
};

/// Receives the log lines of a Server or Client; the library itself never prints. Called on any of its threads, also on
/// several at once, with no lock held. It must not throw, and must not call back into the object that logs.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace crossdock
