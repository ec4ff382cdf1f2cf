// Bodies over TCP, one end of it. The server prints a line of JSON, its address, and sends to one client; the client
// prints what a body cost it, in nanoseconds from the end of one to the end of the next.
//   --role serve | consume
//   --way ours | raw         our Connections; or sockets alone, with a header of 8 bytes before each body
//   --checksum auto | on | off   of the server, with our Connections; auto as without it
//   --host ADDRESS           to listen at; --address HOST:PORT to connect to
//   --body-bytes N --sets N  bodies, each from memory of its own in turns; 8 parts each, as a batch of 8 columns
//   --batches N --warm-up N
// Both ways have the same socket options, and receive into memory that is used again and again: body after body, one
// being kept while the next arrives.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "core/bytes.h"
#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "transfer.h"
#include "transport/tcp.h"

namespace crossdock::bench {
namespace {

// --- ours ---

transport::Checksum checksum_of(const std::string& name) {
  if (name == "on") return transport::Checksum::kOn;
  if (name == "off") return transport::Checksum::kOff;
  if (name == "auto") return transport::Checksum::kAuto;
  throw InvalidArgumentError("--checksum is auto, on or off");
}

void serve_ours(const Arguments& arguments, const Plan& plan) {
  std::vector<Memory> memory;
  for (std::size_t i = 0; i < plan.sets; ++i) memory.push_back(make_memory(plan.body_bytes, static_cast<int>(i) + 1));
  const std::vector<std::byte> metadata(kMetadata);
  transport::TcpOptions options;
  options.checksum = checksum_of(arguments.text("checksum", "auto"));
  const auto listener = transport::tcp_listen("//" + arguments.text("host", "127.0.0.1"), 0, 0, options, nullptr);
  std::printf("{\"address\":\"%s\"}\n", listener->uri().substr(6).c_str());
  std::fflush(stdout);
  std::unique_ptr<transport::Connection> connection;
  while (!(connection = listener->accept())) {
    pollfd ask{listener->descriptor(), POLLIN, 0};
    ::poll(&ask, 1, -1);
  }
  const std::int64_t start_cpu = cpu_ns();
  try {
    bool metadata_sent = false;
    for (std::int64_t sent = 0;;) {
      const std::size_t set = static_cast<std::size_t>(sent) % plan.sets;
      if (sent < plan.warm_up + plan.batches && connection->below_window(kWindow)) {
        metadata_sent = metadata_sent || connection->send(metadata, {});
        if (metadata_sent &&
            connection->send_body(static_cast<std::uint64_t>(sent), parts_of(memory[set], plan.body_bytes), nullptr)) {
          metadata_sent = false;
          ++sent;
          continue;
        }
      }
      if (!connection->receive()) transport::wait_readable(*connection, arguments.wait("wait"), 0, nullptr);
    }
  } catch (const ConnectionError&) {
    // The client has what it wants.
  }
  std::printf("{\"cpu\":%.1f}\n",
              static_cast<double>(cpu_ns() - start_cpu) / static_cast<double>(plan.warm_up + plan.batches));
}

void consume_ours(const Arguments& arguments, const Plan& plan) {
  const auto connection = transport::tcp_connect("//" + arguments.text("address"), {}, 10'000, nullptr);
  transport::Incoming kept;
  measure(plan, [&](std::int64_t i) {
    for (;;) {
      auto message = connection->receive();
      if (!message) {
        transport::wait_readable(*connection, arguments.wait("wait"), 0, nullptr);
      } else if (message->owner) {
        kept = *std::move(message);
        check_body(kept.bytes, i, plan);
        return;
      }
    }
  });
}

// --- sockets alone ---

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) throw InvalidArgumentError("no address: " + host);
  return address;
}

void set_up(int socket) {
  const int yes = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) throw_errno(errno, "TCP_NODELAY");
  // As the transport does: no BBR, which paces, on the loopback.
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  char algorithm[16] = {};
  socklen_t length = sizeof algorithm;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
      (ntohl(peer.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET &&
      ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, algorithm, &length) == 0 &&
      std::strncmp(algorithm, "bbr", 3) == 0) {
    [[maybe_unused]] const int set = ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  }
}

/// Moves all of `parts`. False at the end of the connection.
template <typename F>
bool move_all(std::vector<iovec> parts, F move) {
  std::size_t first = 0;
  while (first < parts.size()) {
    msghdr message{};
    message.msg_iov = parts.data() + first;
    message.msg_iovlen = parts.size() - first;
    ssize_t moved = move(&message);
    if (moved <= 0) return false;
    for (; first < parts.size() && static_cast<std::size_t>(moved) >= parts[first].iov_len; ++first) {
      moved -= static_cast<ssize_t>(parts[first].iov_len);
    }
    if (moved > 0) {
      parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + moved;
      parts[first].iov_len -= static_cast<std::size_t>(moved);
    }
  }
  return true;
}

void serve_raw(const Arguments& arguments, const Plan& plan) {
  std::vector<Memory> memory;
  for (std::size_t i = 0; i < plan.sets; ++i) memory.push_back(make_memory(plan.body_bytes, static_cast<int>(i) + 1));
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(arguments.text("host", "127.0.0.1"), 0);
  socklen_t size = sizeof address;
  if (::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listening.get(), 1) != 0 ||
      ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw_errno(errno, "listening");
  }
  std::printf("{\"address\":\"%s:%d\"}\n", arguments.text("host", "127.0.0.1").c_str(), ntohs(address.sin_port));
  std::fflush(stdout);
  const UniqueFd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  set_up(socket.get());
  std::uint64_t length = plan.body_bytes;
  std::vector<std::byte> metadata(kMetadata);
  for (std::int64_t sent = 0; sent < plan.warm_up + plan.batches; ++sent) {
    std::vector<iovec> parts = {{metadata.data(), metadata.size()}, {&length, sizeof length}};
    for (const ByteSpan part : parts_of(memory[static_cast<std::size_t>(sent) % plan.sets], plan.body_bytes)) {
      parts.push_back({const_cast<std::byte*>(part.data()), part.size()});
    }
    if (!move_all(parts, [&](msghdr* message) { return ::sendmsg(socket.get(), message, MSG_NOSIGNAL); })) return;
  }
  std::byte end;
  [[maybe_unused]] const ssize_t got = ::recv(socket.get(), &end, 1, 0);  // until the client goes
}

void consume_raw(const Arguments& arguments, const Plan& plan) {
  const std::string text = arguments.text("address");
  const std::size_t colon = text.rfind(':');
  const sockaddr_in address = address_of(text.substr(0, colon), std::stoi(text.substr(colon + 1)));
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw_errno(errno, "connecting to " + text);
  }
  set_up(socket.get());
  const std::array<Memory, 2> memory = {make_memory(plan.body_bytes, 0), make_memory(plan.body_bytes, 0)};
  std::vector<std::byte> metadata(kMetadata);
  const auto receive = [&](msghdr* message) { return ::recvmsg(socket.get(), message, 0); };
  measure(plan, [&](std::int64_t i) {
    const Memory& to = memory[static_cast<std::size_t>(i) % memory.size()];
    std::uint64_t length = 0;
    if (!move_all({{metadata.data(), metadata.size()}, {&length, sizeof length}}, receive) ||
        length != plan.body_bytes || !move_all({{to.get(), plan.body_bytes}}, receive)) {
      throw ConnectionError("the stream ended early");
    }
    check_body({to.get(), plan.body_bytes}, i, plan);
  });
}

void transfer(const Arguments& arguments) {
  const Plan plan(arguments);
  const std::string role = arguments.text("role");
  const std::string way = arguments.text("way");
  if ((role != "serve" && role != "consume") || (way != "ours" && way != "raw")) {
    throw InvalidArgumentError("--role is serve or consume, --way is ours or raw");
  }
  const bool serves = role == "serve";
  if (way == "ours") {
    serves ? serve_ours(arguments, plan) : consume_ours(arguments, plan);
  } else {
    serves ? serve_raw(arguments, plan) : consume_raw(arguments, plan);
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(
      argc, argv, {"role", "way", "checksum", "host", "address", "body-bytes", "sets", "batches", "warm-up", "wait"},
      crossdock::bench::transfer);
}
