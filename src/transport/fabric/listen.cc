#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "connect.h"
#include "connection.h"
#include "crossdock/core/error.h"
#include "endpoint.h"
#include "settings.h"
#include "transport/internal/closing_ends.h"
#include "transport/internal/socket_listener.h"
#include "transport/net/record_stream.h"
#include "transport/net/stream_server_socket.h"

namespace crossdock::transport {

namespace {

using namespace fabric;  // NOLINT(google-build-using-namespace): the private half of this very layer

class FabricServerSocket final : public net::StreamServerSocket {
 public:
  FabricServerSocket(std::shared_ptr<const FabricDomains> domains, const std::string& address, std::uint64_t want_data,
                     std::uint64_t free_data, const FabricOptions& options, LogCallback log)
      : StreamServerSocket(fabric::kNames, address, socket_options(options), options.advertised_host, std::move(log)),
        domains_(std::move(domains)),
        options_(options),
        closing_(std::make_shared<ClosingEnds>()),
        welcome_{.features = kOwnFeatures,
                 .max_message = std::min(options.max_message, options.max_request),
                 .max_body = options.max_body,
                 .want_data = want_data,
                 .free_data = free_data} {
    warn_if_open(!options_.token.empty());
  }

  ClosingEnds* closing() noexcept override { return closing_.get(); }

 private:
  class Handshake;

  std::unique_ptr<PendingHandshake> begin_with(UniqueFd client, const SocketAddress& peer,
                                               const std::string& where) override;

  const std::shared_ptr<const FabricDomains> domains_;
  const FabricOptions options_;
  const std::shared_ptr<ClosingEnds> closing_;
  const net::Welcome welcome_;  // without a proof
};

/// The handshake with a client: its opening and the proofs, the endpoints of both, and an opening message from each to
/// the other.
class FabricServerSocket::Handshake final : public PendingHandshake {
 public:
  Handshake(FabricServerSocket& server, UniqueFd socket, const SocketAddress& peer, const std::string& where);

  int descriptor() const noexcept override { return poll_.get(); }
  bool prepare_wait() override { return endpoint_ == nullptr || endpoint_->may_sleep(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override {
    net::send_record(socket_, net::encode(refused));
    net::shut_down(socket_.get());
  }

 private:
  State take(std::vector<std::byte> record);
  State open();
  void take_offer(ByteSpan record);
  void watch(int descriptor);

  FabricServerSocket& server_;
  const SocketAddress peer_;
  net::Socket socket_;
  const UniqueFd poll_;
  net::RecordReader reader_;
  net::ServerHandshake handshake_;
  EndpointPtr endpoint_;  // once the client has said who it is
  net::EndpointOffer client_;
  bool has_offer_ = false;
};

FabricServerSocket::Handshake::Handshake(FabricServerSocket& server, UniqueFd socket, const SocketAddress& peer,
                                         const std::string& where)
    : PendingHandshake(where),
      server_(server),
      peer_(peer),
      socket_(std::move(socket), where),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      handshake_(kHandshakeNames, server.options_.token, server.wrong_tokens_, peer, where) {
  if (!poll_) throw_errno(errno, "making a descriptor to wait on for " + where);
  watch(socket_.get());
}

void FabricServerSocket::Handshake::watch(int descriptor) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno(errno, "watching " + where());
}

std::unique_ptr<PendingHandshake> FabricServerSocket::begin_with(UniqueFd client, const SocketAddress& peer,
                                                                 const std::string& where) {
  return std::make_unique<Handshake>(*this, std::move(client), peer, where);
}

PendingHandshake::State FabricServerSocket::Handshake::read() {
  switch (reader_.read(socket_)) {
    case net::RecordReader::State::kNothing: break;
    case net::RecordReader::State::kEnd: return State::kEnded;
    case net::RecordReader::State::kForeign: throw ProtocolError(std::string(net::kNoHello));
    case net::RecordReader::State::kRecord: {
      const State state = take(reader_.next());
      if (state != State::kWaiting) return state;
    }
  }
  if (endpoint_ == nullptr) return State::kWaiting;
  endpoint_->progress();
  if (const auto& failure = endpoint_->failure()) {
    throw ConnectionError("the endpoints don't connect: " + endpoint_->domain().library().text(failure->error));
  }
  if (has_offer_ && endpoint_->received_opening()) endpoint_->send_opening(client_.opening);
  return endpoint_->opened() ? State::kReady : State::kWaiting;
}

PendingHandshake::State FabricServerSocket::Handshake::take(std::vector<std::byte> record) {
  if (endpoint_ != nullptr) {
    take_offer(record);
    return State::kWaiting;
  }
  const std::vector<std::byte> answer = handshake_.advance(std::move(record));
  if (answer.empty()) return open();
  return net::send_record(socket_, answer) ? State::kWaiting : State::kEnded;
}

/// Opens this end's endpoint, and tells the client.
PendingHandshake::State FabricServerSocket::Handshake::open() {
  if ((handshake_.hello().features & net::kFeatureEndpoints) == 0) {
    throw Rejection{{Refusal::kMode,
                     "this is a server of fabric:, and the client has no endpoint of libfabric: "
                     "connect with the server's own URI"}};
  }
  endpoint_ = Endpoint::make(server_.domains_->beside(socket_.get()));
  watch(endpoint_->descriptor());
  const std::uint64_t opening = random_number();
  endpoint_->await_opening(opening);
  const net::EndpointOffer offer{.opening = opening,
                                 .ways = own_ways(server_.options_).bits(),
                                 .one_sided = endpoint_->domain().progresses_by_itself(),
                                 .port = endpoint_->port(),
                                 .provider = server_.options_.provider};
  return net::send_record(socket_, net::encode(offer)) ? State::kWaiting : State::kEnded;
}

void FabricServerSocket::Handshake::take_offer(ByteSpan record) {
  net::Preamble preamble;
  if (has_offer_ || !decode(record, &preamble) || preamble.type != net::RecordType::kEndpoint ||
      !decode(record, &client_)) {
    throw ProtocolError("the client sent something else than its ENDPOINT");
  }
  const Ways ways = Ways::from_bits(client_.ways);
  if (ways.empty() || ways != (ways & own_ways(server_.options_))) {
    throw ProtocolError("the client's ENDPOINT has no way, or one that this server didn't offer");
  }
  has_offer_ = true;
  endpoint_->set_peer(with_port(peer_, client_.port));
}

PendingHandshake::State FabricServerSocket::Handshake::complete(std::unique_ptr<Connection>* connection) {
  const std::vector<std::byte> record = handshake_.accept(server_.welcome_);
  Introduction introduction =
      introduce(server_.welcome_, handshake_.hello(), server_.welcome_,
                ConnectOptions{.role = handshake_.role(), .ways = Ways::from_bits(client_.ways)}, where());
  introduction.agreement.authenticated = handshake_.proves();
  introduction.agreement.privileged = introduction.agreement.authenticated;
  introduction.agreement.wants_parts = client_.wants_parts;
  introduction.agreement.one_sided = endpoint_->domain().progresses_by_itself();
  introduction.agreement.carrier = carrier_of(server_.options_);
  // The client is told any error thrown here: this keeps a descriptor of its own until the welcome was sent.
  *connection = std::make_unique<FabricConnection>(socket_.duplicate(), std::move(endpoint_), introduction,
                                                   server_.options_, server_.closing_);
  return net::send_record(socket_, record) ? State::kConnected : State::kEnded;
}

/// Throws UnsupportedError if the library or its provider isn't there.
void check_provider(const FabricOptions& options) {
  static_cast<void>(find_provider(*FabricLibrary::require(options.libraries), options.provider, nullptr));
}

std::unique_ptr<Listener> listen_with(std::shared_ptr<const FabricDomains> domains, const std::string& address,
                                      std::uint64_t want_data, std::uint64_t free_data, const FabricOptions& options,
                                      LogCallback log) {
  check_provider(options);
  auto socket =
      std::make_unique<FabricServerSocket>(std::move(domains), address, want_data, free_data, options, std::move(log));
  return std::make_unique<SocketListener>(std::move(socket), "this fabric listener", options.handshake_timeout);
}

class FabricTransport final : public Transport {
 public:
  explicit FabricTransport(const FabricOptions& options)
      : options_(options), domains_(std::make_shared<const FabricDomains>(options.libraries, options.provider)) {
    check_options(options);
  }
  std::string_view scheme() const noexcept override { return fabric::kNames.scheme; }
  Ways ways() const noexcept override { return own_ways(options_); }
  bool needs_sealed_files() const noexcept override { return true; }
  void check_address(const std::string& address) const override {
    check_provider(options_);
    static_cast<void>(parse_address(scheme(), address));
  }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies are accepted from no client.
    FabricOptions options = options_;
    options.max_body = 0;
    return listen_with(domains_, address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return fabric::connect(*domains_, address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  const FabricOptions options_;
  const std::shared_ptr<const FabricDomains> domains_;
};

}  // namespace

std::unique_ptr<Listener> fabric_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                        const FabricOptions& options, LogCallback log) {
  check_options(options);
  return listen_with(std::make_shared<const FabricDomains>(options.libraries, options.provider), address, want_data,
                     free_data, options, std::move(log));
}

std::shared_ptr<const Transport> make_fabric_transport(const FabricOptions& options) {
  return std::make_shared<const FabricTransport>(options);
}

}  // namespace crossdock::transport
