#pragma once

#include <string>
#include <string_view>

namespace crossdock {

/// Returns a URI without its user and password, for error messages: "tcp://me:secret@host" as "tcp://...@host".
inline std::string without_user(std::string_view uri) {
  const std::size_t slashes = uri.find("//");
  if (slashes == std::string_view::npos) return std::string(uri);
  const std::size_t begin = slashes + 2;
  const std::size_t at = uri.substr(0, uri.find('/', begin)).rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(uri);
  return std::string(uri.substr(0, begin)) + "..." + std::string(uri.substr(at));
}

}  // namespace crossdock
