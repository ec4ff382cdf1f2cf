#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/channel_role.h"

namespace crossdock::dissociated {

/// A location ("URI Specification"): scheme, address, and the protocol's query parameters.
struct Uri {
  std::string scheme;  ///< Lower case.
  /// The text between the scheme and the query, percent-decoded: "/run/x.sock", "//host:1234".
  std::string address;
  std::optional<std::uint64_t> want_data;  ///< Absent: the URI is only an address; the handshake must supply it.
  std::optional<std::uint64_t> free_data;
  std::vector<std::byte> remote_handle;
  ChannelRole role = ChannelRole::kBoth;
  bool crossdock = false;                                   ///< crossdock=1: the server is Crossdock's.
  std::vector<std::pair<std::string, std::string>> others;  ///< Unknown parameters, kept in order.
  bool operator==(const Uri&) const = default;
};

/// Parses a URI. Integers are decimal, or hexadecimal with 0x, within uint64. Base64 may use either alphabet, padded or
/// not; `+` is a plus. Bytes over 127 are kept unchanged. Throws UriError, whose text shows the URI and the position,
/// for example for a known parameter given twice or without a value, control characters (also percent-encoded ones), a
/// fragment, or a bad percent escape.
Uri parse_uri(std::string_view text);

}  // namespace crossdock::dissociated
