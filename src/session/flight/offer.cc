#include "session/flight/offer.h"

#include <array>
#include <utility>

#include "core/base64.h"
#include "core/hmac.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "flight/messages.h"
#include "transport/hosts.h"

namespace crossdock::session {
namespace {

flight::Bytes action(std::string_view type, flight::Bytes body) {
  return flight::encode(flight::Action{std::string(type), std::move(body)});
}

std::string make_token() {
  std::array<std::byte, 32> random{};
  fill_random(random);
  return to_base64(random);
}

/// Where the server can reach this process.
std::vector<std::string> addresses_for(const FlightChannel& server) {
  std::vector<std::string> uris;
  const bool same_machine = transport::same_machine(server.host(), "localhost");
  if (same_machine) uris.emplace_back("shm:");
  if (!server.encrypted() || same_machine) {
    const std::string host = transport::address_towards(server.host());
    uris.push_back("tcp://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":0");
  }
  if (uris.empty()) {
    throw UnsupportedError(server.where() +
                           " is at another machine and encrypts, and a table can't be offered over TLS: send it with "
                           "put()");
  }
  return uris;
}

}  // namespace

void offer(const std::shared_ptr<FlightChannel>& channel, const std::string& name,
           std::unique_ptr<array::BatchStream> stream, bool only_new, const ClientOptions& options,
           const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted) {
  TransportOptions transports;
  transports.tcp.token = make_token();
  ServerOptions listening;
  listening.uris = addresses_for(*channel);
  listening.max_connections = 16;
  listening.runtime = options.runtime;
  listening.transports = make_transports(transports);
  const std::vector<flight::Bytes> made =
      channel->ask("DoAction", action(flight::kOfferAction, flight::encode(flight::Offer{name, only_new})),
                   to_ms(options.timeout), interrupted);
  if (made.size() != 1) {
    throw ProtocolError(channel->where() + " answered an offer with " + std::to_string(made.size()) + " messages");
  }
  const flight::Result ticket = flight::decode_result(made.front());
  Server listener(std::move(listening));
  listener.publish(std::string(as_text(ticket.body)), Source::table(std::move(stream)), {.wait = wait});
  const flight::FetchOffer request{
      .ticket = std::string(as_text(ticket.body)), .locations = listener.locations(), .token = transports.tcp.token};
  // The server reads the whole table before it answers.
  channel->ask("DoAction", action(flight::kFetchAction, flight::encode(request)), -1, interrupted);
}

}  // namespace crossdock::session
