#include "session/flight/location.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "transport/hosts.h"

namespace crossdock::session {
namespace {

constexpr std::string_view kReuse = "arrow-flight-reuse-connection:";
constexpr std::size_t kMostHost =
    257;  ///< Bytes: of a name of DNS, or an IPv6 address with its interface, in brackets.

std::size_t cost(const std::string& location) {
  constexpr std::array<std::string_view, 5> kCheapest = {"shm:", "ucx:", "fabric:", "tcp:", "tcp+tls:"};
  const auto found =
      std::ranges::find_if(kCheapest, [&](std::string_view scheme) { return location.starts_with(scheme); });
  return static_cast<std::size_t>(found - kCheapest.begin());
}

bool is_encrypted(std::string_view scheme) noexcept { return scheme.ends_with("+tls"); }

}  // namespace

std::vector<std::string> by_cost(std::vector<std::string> locations) {
  std::erase_if(locations, [](const std::string& location) { return location.starts_with(kReuse); });
  std::ranges::stable_sort(locations, {}, cost);
  return locations;
}

std::optional<std::string> host_and_port(std::string_view address) {
  if (!address.starts_with("//")) return std::nullopt;
  address.remove_prefix(2);
  if (address.ends_with('/')) address.remove_suffix(1);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon > kMostHost) return std::nullopt;
  const std::string_view host = address.substr(0, colon);
  const bool in_brackets = host.starts_with('[') && host.ends_with(']') && host.find(':') != std::string_view::npos;
  if (!in_brackets && host.find_first_of(":[]") != std::string_view::npos) return std::nullopt;
  if (address.find_first_of("/@") != std::string_view::npos) return std::nullopt;
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end) return std::nullopt;
  return std::string(address);
}

std::string host_in(std::string_view address) {
  if (!address.starts_with("//")) return {};
  address.remove_prefix(2);
  if (address.starts_with('[')) return std::string(address.substr(1, std::min(address.find(']'), address.size()) - 1));
  return std::string(address.substr(0, address.find_first_of(":/")));
}

std::string host_without_port(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

std::string why_not(const std::string& location, const LocationRules& rules,
                    const transport::TransportRegistry& transports) {
  dissociated::Uri uri;
  try {
    uri = dissociated::parse_uri(location);
    static_cast<void>(transports.find(uri.scheme));
  } catch (const Error& error) {  // a UriError or a SchemeError
    return error.what();
  }
  if (uri.scheme == "shm") {
    // A server of another machine may name an address that another server has here; the tag tells them apart.
    return uri.want_data ? "" : "it has no want_data, by which the server is known";
  }
  if (rules.any_location) return "";
  const std::string host = host_in(uri.address);
  if (!transport::same_machine(host, rules.host)) {
    return "it is at another host than " + rules.host + ": allow that with any_location";
  }
  if (rules.encrypted && !is_encrypted(uri.scheme) && !transport::same_machine(host, "localhost")) {
    return "it isn't encrypted, as the Flight server is: allow that with any_location";
  }
  return "";
}

}  // namespace crossdock::session
