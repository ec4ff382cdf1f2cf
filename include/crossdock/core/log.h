#pragma once

#include <functional>
#include <string_view>

namespace crossdock {

/// How grave a log line is, by the numbers of Python's module logging.
enum class LogLevel { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

/// Receives the log lines of a Server or Client; the library itself never prints. Called on any of its threads, also on
/// several at once, with no lock held. It must not throw, and must not call back into the object that logs.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace crossdock
