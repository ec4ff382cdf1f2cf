#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "transport/fabric.h"
#include "transport/fabric/announcements.h"
#include "transport/fabric/endpoint.h"
#include "transport/fabric/settings.h"
#include "transport/internal/socket_address.h"
#include "transport/net/byte_stream.h"
#include "transport/net/frames.h"
#include "transport/net/record_stream.h"
#include "transport/net/records.h"

/// Helpers of the fabric transport's tests.
namespace crossdock::transport::fabric_test {

using namespace fabric;  // NOLINT(google-build-using-namespace): these are its tests

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

inline constexpr int kPatienceMs = 20'000;

inline Bytes pattern(std::size_t size, unsigned seed = 0) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + seed * 13);
  return bytes;
}

inline Clock::time_point in_patience() { return Clock::now() + std::chrono::milliseconds(kPatienceMs); }
inline std::int64_t in_ns(Clock::time_point time) { return time.time_since_epoch() / std::chrono::nanoseconds(1); }

inline std::shared_ptr<const device::Region> frozen(const Bytes& content) {
  device::RegionWriter writer("fabric-test");
  writer.append(content);
  return writer.freeze();
}

/// Waits for the next message, asleep. Throws what receive() throws, TimeoutError after kPatienceMs.
inline Incoming receive(Connection& connection) {
  const std::int64_t deadline = in_ns(in_patience());
  for (;;) {
    if (auto message = connection.receive()) return *std::move(message);
    if (!wait_readable(connection, WaitMode::kBlock, deadline, nullptr)) throw TimeoutError("no message came");
  }
}

/// Waits for the announcement of a region that no message names.
inline std::shared_ptr<const PeerRegion> await_region(Connection& connection, std::uint64_t address) {
  const auto deadline = in_patience();
  for (;;) {
    connection.receive();
    try {
      return connection.peer_region(address, 0);
    } catch (const ProtocolError&) {
      if (Clock::now() > deadline) throw;
    }
    wait_readable(connection, WaitMode::kBlock, in_ns(deadline), nullptr);
  }
}

inline std::unique_ptr<Connection> accept_one(Listener& listener) {
  const auto deadline = in_patience();
  while (Clock::now() < deadline) {
    if (auto connection = listener.accept()) return connection;
    pollfd ask{listener.descriptor(), POLLIN, 0};
    ::poll(&ask, 1, 100);
  }
  throw TimeoutError("nobody connected");
}

inline std::string address_of(const Listener& listener) { return listener.uri().substr(7); }

/// Both ends of a connection.
struct Pair {
  explicit Pair(const FabricOptions& server_options = {}, const FabricOptions& client_options = {},
                const ConnectOptions& wishes = {}) {
    const auto listener = fabric_listen("", 1, 2, server_options, nullptr);
    auto connecting = std::async(std::launch::async, [&] {
      return fabric_connect(address_of(*listener), client_options, kPatienceMs, nullptr, wishes);
    });
    server = accept_one(*listener);
    client = connecting.get();
  }
  std::unique_ptr<Connection> server;
  std::unique_ptr<Connection> client;
};

/// Sends a body, pushing both ends on.
inline void send_body(Connection& from, Connection& to, std::uint64_t tag, const std::vector<ByteSpan>& parts,
                      std::shared_ptr<const void> keep) {
  const auto deadline = in_patience();
  while (!from.send_body(tag, parts, keep)) {
    from.receive();
    to.readable();
    if (Clock::now() > deadline) throw TimeoutError("no room came");
  }
}

/// An operation that a test began.
struct Counted final : Operation {
  using Operation::Operation;
  void on_done(std::size_t) noexcept override { done = true; }
  bool done = false;
};

/// A TCP socket with a port of its own at 127.0.0.1.
inline UniqueFd loopback_socket() {
  UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(made.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) throw std::runtime_error("can't bind");
  return made;
}

/// An end that shakes hands as it must, and then sends what the test likes.
class RawEnd {
 public:
  /// A server: serve() takes a client.
  RawEnd() : listening_(loopback_socket()) {
    if (::listen(listening_.get(), 1) != 0) throw std::runtime_error("can't listen");
  }
  /// A client of the listener at `address`, whose offer `change` may change.
  explicit RawEnd(const std::string& address, const std::function<void(net::EndpointOffer&)>& change = {},
                  std::uint64_t features = kOwnFeatures) {
    const SocketAddress to = resolve("fabric", parse_address("fabric", address)).at(0);
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(socket.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) throw std::runtime_error("connect");
    pollfd ask{socket.get(), POLLOUT, 0};
    ::poll(&ask, 1, kPatienceMs);
    socket_ = std::make_unique<net::Socket>(std::move(socket), "the listener");
    net::send_record(*socket_, encode(net::Hello{.features = features,
                                                 .max_message = 1 << 20,
                                                 .max_body = 1 << 30,
                                                 .role = static_cast<std::uint32_t>(ChannelRole::kBoth)}));
    net::EndpointOffer its;
    const Bytes answer = record();
    if (!decode(answer, &its)) return;
    endpoint = Endpoint::make(domains().beside(socket_->get()));
    endpoint->set_peer(with_port(peer_address(socket_->get()), its.port));
    endpoint->await_opening(7);
    net::EndpointOffer own{
        .opening = 7, .ways = Ways::from_bits(its.ways).bits(), .port = endpoint->port(), .provider = its.provider};
    if (change) change(own);
    net::send_record(*socket_, encode(own));
    opening_ = its.opening;
  }

  std::string address() const { return "//127.0.0.1:" + std::to_string(port_of(local_address(listening_.get()))); }

  /// Takes a client, up to its offer; serve() to the end. `change` may change the own offer.
  void offer(Ways ways, const std::function<void(net::EndpointOffer&)>& change = {}) {
    pollfd ask{listening_.get(), POLLIN, 0};
    ::poll(&ask, 1, kPatienceMs);
    socket_ = std::make_unique<net::Socket>(
        UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), "the client");
    record();
    endpoint = Endpoint::make(domains().beside(socket_->get()));
    endpoint->await_opening(77);
    net::EndpointOffer own{
        .opening = 77, .ways = ways.bits(), .port = endpoint->port(), .provider = FabricOptions{}.provider};
    if (change) change(own);
    net::send_record(*socket_, encode(own));
  }
  void serve(Ways ways = Way::kRead | Way::kMessage) {
    offer(ways);
    net::EndpointOffer its;
    const Bytes answer = record();
    if (!decode(answer, &its)) throw std::runtime_error("no offer");
    endpoint->set_peer(with_port(peer_address(socket_->get()), its.port));
    run([&] { return endpoint->received_opening() && endpoint->send_opening(its.opening) && endpoint->opened(); });
    net::send_record(
        *socket_,
        encode(net::Welcome{
            .features = kOwnFeatures, .max_message = 1 << 20, .max_body = 1 << 30, .want_data = 1, .free_data = 2}));
  }
  /// For a client: connects the endpoints, and returns the server's answer.
  Bytes open() {
    run([&] { return endpoint->send_opening(opening_) && endpoint->opened(); });
    return record();
  }

  /// The next record.
  Bytes record() {
    const auto deadline = in_patience();
    for (;;) {
      const auto state = reader_.read(*socket_);
      if (state == net::RecordReader::State::kRecord) return reader_.next();
      if (state != net::RecordReader::State::kNothing) return {};
      if (Clock::now() > deadline) throw TimeoutError("no record came");
      if (endpoint) endpoint->progress();
      pollfd ask{socket_->get(), POLLIN, 0};
      ::poll(&ask, 1, endpoint ? 1 : 100);
    }
  }
  /// The next region that the other end announces; frames of other kinds are skipped.
  RegionAnnouncement region() {
    for (;;) {
      net::FrameHeader header;
      if (!net::load(bytes(net::kHeaderBytes).data(), net::Checksums::kNone, net::FrameKinds::kBeside, &header)) {
        throw std::runtime_error("no frame");
      }
      Bytes payload = bytes(align_up(header.length, net::kFrameAlignment));
      payload.resize(header.length);
      RegionAnnouncement announced;
      if (header.kind == net::FrameKind::kRegion && decode(payload, &announced)) return announced;
    }
  }
  /// Sends a frame. Calls `between` until the other end has taken it; returns false if it stops taking.
  bool frame(
      net::FrameKind kind, std::uint64_t tag, ByteSpan payload = {}, const std::function<void()>& between = [] {}) {
    Bytes bytes(net::kHeaderBytes);
    store(bytes.data(), {kind, tag, payload.size()}, net::Checksums::kNone);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(align_up(bytes.size(), 8));
    ByteSpan rest = bytes;
    for (int idle = 0; !rest.empty() && idle < 100; ++idle) {
      const iovec part{const_cast<std::byte*>(rest.data()), rest.size()};
      const net::IoResult moved = socket_->write({&part, 1});
      if (moved.bytes > 0) idle = 0;
      rest = rest.subspan(moved.bytes);
      between();
      pollfd ask{socket_->get(), POLLOUT, 0};
      if (!rest.empty()) ::poll(&ask, 1, 1);
    }
    return rest.empty();
  }
  /// Makes progress until `done()`. Returns false if the other end hung up, or after kPatienceMs.
  template <typename F>
  bool run(F done) {
    const auto deadline = in_patience();
    while (Clock::now() < deadline) {
      endpoint->progress();
      if (done()) return true;
      pollfd ask{socket_->get(), POLLRDHUP, 0};
      if (::poll(&ask, 1, 1) > 0) return false;
    }
    return false;
  }
  void hang_up() { socket_.reset(); }

  EndpointPtr endpoint;

 private:
  Bytes bytes(std::size_t size) {
    Bytes all(size);
    const auto deadline = in_patience();
    for (std::size_t have = 0; have < size;) {
      const iovec rest{all.data() + have, size - have};
      const net::IoResult moved = socket_->read({&rest, 1});
      if (moved.state == net::IoResult::State::kEnd) throw std::runtime_error("the other end hung up");
      if (Clock::now() > deadline) throw TimeoutError("no bytes came");
      have += moved.bytes;
      pollfd ask{socket_->get(), POLLIN, 0};
      if (moved.bytes == 0) ::poll(&ask, 1, kPatienceMs);
    }
    return all;
  }
  static const FabricDomains& domains() {
    static const FabricDomains all({}, FabricOptions{}.provider);
    return all;
  }
  UniqueFd listening_;
  std::unique_ptr<net::Socket> socket_;
  net::RecordReader reader_;
  std::uint64_t opening_ = 0;
};

}  // namespace crossdock::transport::fabric_test
