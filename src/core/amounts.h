#pragma once

#include <chrono>
#include <concepts>
#include <string>

/// Amounts with their units, for error messages.
namespace crossdock {

/// Returns a count and what is counted, as in "1 null" and "2 nulls". many: the plural; nullptr: `one` and an s.
std::string counted(std::integral auto count, const char* one, const char* many = nullptr) {
  const std::string number = std::to_string(count) + ' ';
  if (count != 1 && many != nullptr) return number + many;
  return number + one + (count == 1 ? "" : "s");
}

/// Returns a duration of at least 0 as seconds, as in "10 s" and "0.25 s".
inline std::string in_seconds(std::chrono::milliseconds duration) {
  const std::string thousandths = std::to_string(1000 + duration.count() % 1000).substr(1);
  const std::string fraction = thousandths.substr(0, thousandths.find_last_not_of('0') + 1);
  return std::to_string(duration.count() / 1000) + (fraction.empty() ? "" : "." + fraction) + " s";
}

}  // namespace crossdock
