#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crossdock {

/// Returns a URI without its user and password, for error messages: "tcp://me:secret@host" as "tcp://...@host". Also
/// without slashes or a scheme, as somebody may write it. A path, which begins with one slash, may have an '@'.
inline std::string without_user(std::string_view uri) {
  const std::size_t slashes = uri.find("//");
  const std::size_t colon = uri.find(':');
  std::size_t begin = 0;
  if (slashes != std::string_view::npos) {
    begin = slashes + 2;
  } else if (colon != std::string_view::npos && colon < uri.find('@')) {
    begin = colon + 1;
  }
  const std::string_view host = uri.substr(begin, uri.find_first_of("/?", begin) - begin);
  const std::size_t at = host.rfind('@');
  if (at == std::string_view::npos) return std::string(uri);
  return std::string(uri.substr(0, begin)) + "..." + std::string(uri.substr(begin + at));
}

}  // namespace crossdock
