#include "transport/registry.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::transport {

void TransportRegistry::add(std::shared_ptr<const Transport> transport) {
  const std::string_view scheme = transport->scheme();
  if (std::ranges::any_of(transports_, [&](const auto& known) { return known->scheme() == scheme; })) {
    throw InvalidArgumentError("a transport for " + std::string(scheme) + ": is already registered");
  }
  transports_.push_back(std::move(transport));
}

std::unique_ptr<Listener> Transport::listen_for_peers(const std::string&, LogCallback) const {
  throw UnsupportedError(std::string(scheme()) + ": has no peers");
}

const std::shared_ptr<const Transport>& TransportRegistry::find(std::string_view scheme) const {
  for (const auto& transport : transports_) {
    if (transport->scheme() == scheme) return transport;
  }
  std::string known;
  for (const auto& transport : transports_) {
    known += (known.empty() ? "" : ", ") + std::string(transport->scheme()) + ":";
  }
  throw SchemeError("no transport has the scheme " + shown(scheme, 40) + "; the schemes are " +
                    (known.empty() ? std::string("none") : known));
}

}  // namespace crossdock::transport
