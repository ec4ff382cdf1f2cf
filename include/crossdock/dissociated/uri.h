#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/core/channel_role.h"
#include "crossdock/core/export.h"

namespace crossdock::dissociated {

/// A location ("URI Specification"): scheme, address, and the protocol's query parameters.
struct Uri {
  std::string scheme;  ///< Lower case.
  /// What stands between the scheme and the query, percent-decoded: "/run/x.sock", "//host:1234".
  std::string address;
  std::optional<std::uint64_t> want_data;  ///< Absent: the URI is an address only; a handshake must supply it.
  std::optional<std::uint64_t> free_data;
  std::vector<std::byte> remote_handle;
  ChannelRole role = ChannelRole::kBoth;
  std::vector<std::pair<std::string, std::string>> others;  ///< Parameters that we don't know, kept in order.
  bool operator==(const Uri&) const = default;
};

/// Throws UriError that shows the text and the place. Integers are decimal or 0x hexadecimal within uint64; base64 in
/// either alphabet, padded or not, where `+` is a plus; a known parameter given twice or without a value is an error,
/// as are control characters (also percent-encoded ones), a fragment, and a bad percent escape. Bytes over 127 are
/// taken as they are.
CROSSDOCK_EXPORT Uri parse_uri(std::string_view text);
/// Decimal integers, URL-safe base64 without padding. parse_uri(format_uri(u)) == u. Throws UriError for what no URI
/// can say: a scheme that isn't one, control characters, a known parameter or an empty name among `others`.
CROSSDOCK_EXPORT std::string format_uri(const Uri& uri);

}  // namespace crossdock::dissociated
