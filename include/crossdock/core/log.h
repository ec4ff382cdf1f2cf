#pragma once

#include <functional>
#include <string_view>

namespace crossdock {

enum class LogLevel { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

/// Where a Server or Client says what it does; the library itself never prints. Called from any of its threads, also
/// from several at once, with no lock held; must not throw and must not call back into the object that logs.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace crossdock
