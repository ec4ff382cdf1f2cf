#include "transport/ways.h"

#include "crossdock/core/error.h"
#include "transport/transport.h"

namespace crossdock::transport {

std::string to_text(Ways ways) {
  std::string text;
  for (const Way way : {Way::kMap, Way::kRead, Way::kMessage}) {
    if (ways.has(way)) text += (text.empty() ? "" : ", ") + std::string(way_name(way));
  }
  return text.empty() ? "none" : text;
}

std::string_view way_name(Way way) noexcept {
  switch (way) {
    case Way::kMap: return "map";
    case Way::kRead: return "read";
    case Way::kMessage: return "message";
  }
  return "unknown";
}

std::optional<Way> way_named(std::string_view name) noexcept {
  for (const Way way : {Way::kMap, Way::kRead, Way::kMessage}) {
    if (way_name(way) == name) return way;
  }
  return std::nullopt;
}

Ways agreed_ways(Ways wanted, Ways transports, std::string_view where) {
  const Ways ways = wanted & transports;
  if (!ways.empty()) return ways;
  throw UnsupportedError("bodies can't reach this client of " + std::string(where) + " in the way that it wants (" +
                         to_text(wanted) + "): this transport has " + to_text(transports));
}

}  // namespace crossdock::transport
