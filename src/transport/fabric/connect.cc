#include "connect.h"

#include <poll.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "connection.h"
#include "crossdock/core/error.h"
#include "endpoint.h"
#include "settings.h"
#include "transport/internal/deadline.h"
#include "transport/net/connect.h"
#include "transport/net/token.h"
#include "transport/ways.h"

namespace crossdock::transport {

namespace fabric {
namespace {

/// The client's end of a handshake.
class Connecting {
 public:
  Connecting(const FabricDomains& domains, const FabricOptions& options, const ConnectOptions& wishes,
             std::string where, UniqueFd socket)
      : domains_(domains),
        options_(options),
        wishes_(wishes),
        where_(std::move(where)),
        socket_(std::move(socket), where_),
        hello_{.features = kOwnFeatures,
               .max_message = options.max_message,
               .max_body = options.max_body,
               .role = static_cast<std::uint32_t>(wishes.role),
               .has_token = !options.token.empty(),
               .nonce = net::make_nonce()},
        handshake_(hello_, options.token, kHandshakeNames, where_) {}

  std::unique_ptr<Connection> run(const Deadline& deadline);

 private:
  void take(std::vector<std::byte> record);
  void open(const net::EndpointOffer& server);
  void wait(const Deadline& deadline);

  const FabricDomains& domains_;
  const FabricOptions& options_;
  ConnectOptions wishes_;
  const std::string where_;
  net::Socket socket_;
  const net::Hello hello_;
  net::ClientHandshake handshake_;
  net::RecordReader reader_;
  EndpointPtr endpoint_;
  net::EndpointOffer server_;
};

std::unique_ptr<Connection> Connecting::run(const Deadline& deadline) {
  // A server that rejects at once has already answered and closed the connection. Its answer is a better error than a
  // failure to send, which is therefore ignored.
  net::send_record(socket_, handshake_.opening());
  // Without an endpoint there is an error to report.
  while (!handshake_.complete() || (endpoint_ != nullptr && !endpoint_->opened())) {
    std::optional<std::vector<std::byte>> record;
    if (!handshake_.complete()) record = net::next_record(socket_, reader_, where_);
    if (record) {
      take(*std::move(record));
    } else {
      wait(deadline);
    }
  }
  const net::Welcome& welcome = handshake_.welcome();
  if (endpoint_ == nullptr) {
    throw HandshakeError(where_ + " has no endpoint of libfabric: it is a server of tcp:, connect with its own URI");
  }
  Introduction introduction = introduce(hello_, welcome, welcome, wishes_, where_);
  introduction.agreement.wants_parts = wishes_.wants_parts;
  introduction.agreement.one_sided = server_.one_sided;
  introduction.agreement.carrier = carrier_of(options_);
  return std::make_unique<FabricConnection>(socket_.duplicate(), std::move(endpoint_), introduction, options_, nullptr);
}

void Connecting::take(std::vector<std::byte> record) {
  net::Preamble preamble;
  if (!decode(record, &preamble) || preamble.type != net::RecordType::kEndpoint) {
    const std::vector<std::byte> answer = handshake_.advance(std::move(record));
    if (!answer.empty()) net::send_record(socket_, answer);
    return;
  }
  if (endpoint_ != nullptr || !decode(record, &server_)) {
    throw HandshakeError(where_ + " sent an ENDPOINT that is malformed, or a second one");
  }
  open(server_);
}

void Connecting::open(const net::EndpointOffer& server) {
  if (server.provider != options_.provider) {
    throw HandshakeError(
        where_ + " has an endpoint of libfabric's provider \"" + server.provider + "\", and this client one of \"" +
        options_.provider +
        "\": set FabricOptions::provider (in Python and for the command CROSSDOCK_FABRIC_PROVIDER) to the "
        "same at both ends");
  }
  wishes_.ways = agreed_ways(wishes_.ways & own_ways(options_), Ways::from_bits(server.ways), where_);
  endpoint_ = Endpoint::make(domains_.beside(socket_.get()));
  endpoint_->set_peer(with_port(peer_address(socket_.get()), server.port));
  const std::uint64_t opening = random_number();
  endpoint_->await_opening(opening);
  net::send_record(socket_, encode(net::EndpointOffer{.opening = opening,
                                                      .ways = wishes_.ways.bits(),
                                                      .wants_parts = wishes_.wants_parts,
                                                      .port = endpoint_->port(),
                                                      .provider = options_.provider}));
}

/// Waits until something may have come. Meanwhile sends the opening message, which connects the two endpoints.
void Connecting::wait(const Deadline& deadline) {
  if (endpoint_ == nullptr) {
    deadline.wait(socket_.get(), POLLIN);
    return;
  }
  const std::string its = where_ + "'s endpoint of libfabric at port " + std::to_string(server_.port);
  try {
    const int slice_ms = deadline.slice();
    endpoint_->progress();
    endpoint_->send_opening(server_.opening);
    if (const auto& failure = endpoint_->failure()) {
      throw ConnectionError("connecting to " + its + " failed: " + endpoint_->domain().library().text(failure->error));
    }
    if (!endpoint_->may_sleep()) return;
    std::array<pollfd, 2> ask = {pollfd{socket_.get(), POLLIN, 0}, pollfd{endpoint_->descriptor(), POLLIN, 0}};
    ::poll(ask.data(), ask.size(), slice_ms);
  } catch (const TimeoutError& error) {
    throw TimeoutError(std::string(error.what()) + ": " + its +
                       " can't be reached; does a firewall let only the server's own port through?");
  }
}

}  // namespace

std::unique_ptr<Connection> connect(const FabricDomains& domains, const std::string& address,
                                    const FabricOptions& options, int timeout_ms, const InterruptHook& interrupted,
                                    const ConnectOptions& wishes) {
  const HostPort to = net::server_address(kNames.scheme, address);
  const std::string where = to_uri(kNames.scheme, to.host.empty() ? "127.0.0.1" : to.host, to.port);
  agreed_ways(wishes.ways, own_ways(options), where);  // throws early
  const Deadline deadline(where, timeout_ms, interrupted);
  UniqueFd socket = net::connect_socket(kNames.scheme, to, socket_options(options), where, deadline);
  return Connecting(domains, options, wishes, where, std::move(socket)).run(deadline);
}

}  // namespace fabric

std::unique_ptr<Connection> fabric_connect(const std::string& address, const FabricOptions& options, int timeout_ms,
                                           const InterruptHook& interrupted, const ConnectOptions& wishes) {
  fabric::check_options(options);
  const fabric::FabricDomains domains(options.libraries, options.provider);
  return fabric::connect(domains, address, options, timeout_ms, interrupted, wishes);
}

}  // namespace crossdock::transport
