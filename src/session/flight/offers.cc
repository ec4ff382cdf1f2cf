#include "session/flight/offers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "core/hmac.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "crossdock/session/client.h"
#include "dissociated/uri.h"
#include "flight/status.h"
#include "session/charged_stream.h"
#include "session/flight/location.h"
#include "session/flight/peer_host.h"
#include "session/flight/puts.h"
#include "session/say.h"
#include "session/table_name.h"
#include "transport/hosts.h"

namespace crossdock::session {
namespace {

/// How long a client may take from its offer until it asks for the fetch.
constexpr std::chrono::seconds kOpenFor{60};
constexpr std::size_t kMostOpen = 256;
constexpr std::ptrdiff_t kMostOpenOfHost = 32;
constexpr std::size_t kMostLocations = 8;
/// For connecting, and for each batch: the client's table is there.
constexpr std::chrono::seconds kTimeout{10};

std::string make_ticket() {
  std::array<std::byte, 32> random{};
  fill_random(random);
  return std::string(as_text(random));
}

/// Why a server doesn't fetch from there; empty if it does: it connects to the client that has asked, and to nobody
/// else.
std::string why_not(const std::string& location, const std::string& host) {
  const dissociated::Uri uri = dissociated::parse_uri(location);
  if (uri.scheme == "shm") {
    return transport::same_machine(host, "localhost") ? ""
                                                      : "it is shared memory, and the client is at another machine";
  }
  if (uri.scheme != "tcp" && uri.scheme != "tcp+tls") return "tables are fetched over shm, tcp and tcp+tls";
  const std::string named = host_in(uri.address);
  return named == host ? "" : "it is at " + shown(named) + ", and the request came from " + host;
}

}  // namespace

std::vector<flight::ActionType> Offers::actions() const {
  if (options_.flight.puts == FlightPuts::kRefused) return {};
  return {{std::string(flight::kOfferAction), "makes a ticket, under which a client serves a table to this server"},
          {std::string(flight::kFetchAction), "fetches a table that was offered, and publishes it"}};
}

std::string Offers::take(const std::string& peer, const flight::Offer& offer) {
  if (options_.flight.puts == FlightPuts::kRefused) {
    throw UnsupportedError("this server takes no tables from clients: " + shown(offer.name) + " isn't fetched");
  }
  check_name(offer.name);
  if (offer.only_new || options_.flight.puts == FlightPuts::kNew) check_is_free(directory_, offer.name);
  std::string ticket = make_ticket();
  const std::string host = peer_host(peer);
  const std::lock_guard lock(mutex_);
  drop_old();
  const auto of_host = std::ranges::count_if(open_, [&](const auto& entry) { return entry.second.host == host; });
  if (open_.size() >= kMostOpen || of_host >= kMostOpenOfHost) {
    throw ResourceError(std::to_string(open_.size()) + " tables were offered and not fetched yet, " +
                        std::to_string(of_host) + " of them by " + host + ": try again later");
  }
  open_.emplace(ticket, Open{offer.name, host, offer.only_new, Clock::now() + kOpenFor});
  return ticket;
}

// Call it with the lock held.
void Offers::drop_old() {
  std::erase_if(open_, [now = Clock::now()](const auto& entry) { return entry.second.until < now; });
}

void Offers::fetch(const std::shared_ptr<AnswerCall>& call, const std::string& peer, flight::FetchOffer request) {
  std::optional<Open> offer;
  {
    const std::lock_guard lock(mutex_);
    drop_old();
    const auto found = open_.find(request.ticket);
    if (found != open_.end() && found->second.host == peer_host(peer)) {
      offer = std::move(found->second);
      open_.erase(found);  // it is for one fetch
    }
  }
  if (!offer) {
    throw PermissionError(
        "there is no offer with this ticket: it was made by another server, or for another client, was used, or is "
        "too old");
  }
  if (request.locations.size() > kMostLocations) {
    throw ResourceError(std::to_string(request.locations.size()) + " locations are too many for one table");
  }
  threads_.start([this, call, peer, offer = *std::move(offer), request = std::move(request)] {
    publish(call, peer, offer, request);
  });
}

std::unique_ptr<Reader> Offers::read(const flight::FetchOffer& request, const std::string& host,
                                     const transport::InterruptHook& over) const {
  std::string tried;
  for (const std::string& location : by_cost(request.locations)) {
    try {
      if (const std::string objection = why_not(location, host); !objection.empty()) {
        tried += "\n  " + shown(location) + ": PermissionError: " + objection;
        continue;
      }
      TransportOptions transports;
      transports.tcp.token = request.token;
      transports.tls = options_.flight.tls;
      Client from(location,
                  {.timeout = kTimeout, .transports = make_transports(transports), .runtime = options_.runtime}, over);
      GetOptions how;
      how.wait = transport::WaitMode::kBlock;
      how.timeout = kTimeout;
      how.limits = options_.limits;
      how.arena = options_.runtime->make_arena(options_.flight.max_put_bytes);
      auto reader = from.get(request.ticket, how, over);
      reader->set_interrupt_hook(over);
      return reader;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInterrupted) throw;
      // The text may be of another server of this machine, which the client mustn't hear of.
      tried += "\n  " + shown(location) + ": " + std::string(error_name(error.code()));
      say(options_.log, LogLevel::kInfo, [&] {
        return "a table can't be fetched from " + shown(location) + " for the Flight client at " + host + ": " +
               std::string(error_name(error.code())) + ": " + error.what();
      });
    }
  }
  throw ConnectionError("the table can't be fetched from the client; tried:" +
                        (tried.empty() ? std::string(" it named no location") : tried));
}

void Offers::publish(const std::shared_ptr<AnswerCall>& call, const std::string& peer, const Open& offer,
                     const flight::FetchOffer& request) const {
  try {
    const bool replace = options_.flight.puts == FlightPuts::kReplace && !offer.only_new;
    auto reader = read(request, offer.host, [call] { return call->over(); });
    publish_(offer.name, Source::table(bounded(std::move(reader), options_.flight.max_put_bytes)), replace);
    say(options_.log, LogLevel::kInfo,
        [&] { return "the table " + shown(offer.name) + " was fetched from the Flight client at " + peer; });
    call->push({flight::encode(flight::Result{})});
    call->finish({});
  } catch (const std::exception& error) {
    say(options_.log, LogLevel::kWarning, [&] {
      return "the table " + shown(offer.name) + " of the Flight client at " + peer +
             " wasn't published: " + error.what();
    });
    call->finish(flight::status_of(error));
  }
}

}  // namespace crossdock::session
