#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/base64.h"
#include "core/text.h"
#include "dissociated/uri.h"

namespace crossdock {

/// Writes a URI that parse_uri() reads as `uri`, which has a valid scheme, no control characters, and no known or empty
/// name among its other parameters. Integers are decimal.
inline std::string format_uri(const dissociated::Uri& uri) {
  // The characters of a path and a query (RFC 3986, pchar and '/') without the separators of each part.
  constexpr std::string_view kInAddress = "-._~!$&'()*+,;=:@/[]";
  constexpr std::string_view kInParameter = "-._~!$'()*+,;:@/[]";
  std::string out = uri.scheme + ":" + percent_encoded(uri.address, kInAddress);
  char separator = '?';
  const auto add = [&](std::string_view name, std::string_view value) {
    out += std::exchange(separator, '&');
    out += percent_encoded(name, kInParameter) + "=" + percent_encoded(value, kInParameter);
  };
  if (uri.want_data) add("want_data", std::to_string(*uri.want_data));
  if (uri.free_data) add("free_data", std::to_string(*uri.free_data));
  if (!uri.remote_handle.empty()) add("remote_handle", to_base64(uri.remote_handle));
  if (uri.role != ChannelRole::kBoth) add("stream", uri.role == ChannelRole::kMetadata ? "metadata" : "data");
  if (uri.crossdock) add("crossdock", "1");
  for (const auto& [name, value] : uri.others) add(name, value);
  return out;
}

}  // namespace crossdock
