// Bodies over a pair of TCP sockets, one end of it, with none of our code: what the connections of bodies.cc are
// measured beside. It has tcp's socket options and a header of 8 bytes before each body, and receives into memory that
// is used again and again: body after body, one being kept while the next arrives.
//   --role serve | consume
//   --host ADDRESS           to listen at; --address HOST:PORT to connect to
//   --body-bytes N --parts N --sets N --batches N --warm-up N   as in bodies.cc
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <string>
#include <vector>

#include "arguments.h"
#include "body_memory.h"
#include "crossdock/core/error.h"
#include "raw_socket.h"

namespace crossdock::bench {
namespace {

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

void serve(const Arguments& arguments, const Plan& plan) {
  const std::vector<Memory> memory = make_bodies(plan);
  const UniqueFd socket = accept_raw(arguments);
  std::uint64_t length = plan.body_bytes;
  std::vector<std::byte> metadata(kMetadata);
  for (std::int64_t sent = 0; sent < plan.warm_up + plan.batches; ++sent) {
    std::vector<iovec> parts = {{metadata.data(), metadata.size()}, {&length, sizeof length}};
    for (const ByteSpan part : parts_of(memory[static_cast<std::size_t>(sent) % plan.sets], plan)) {
      parts.push_back({const_cast<std::byte*>(part.data()), part.size()});
    }
    if (!move_all(parts, [&](msghdr* message) { return ::sendmsg(socket.get(), message, MSG_NOSIGNAL); })) return;
  }
  std::byte end;
  [[maybe_unused]] const ssize_t got = ::recv(socket.get(), &end, 1, 0);  // until the client goes
}

void consume(const Arguments& arguments, const Plan& plan) {
  const UniqueFd socket = connect_raw(arguments);
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
  if (role != "serve" && role != "consume") throw InvalidArgumentError("--role is serve or consume");
  role == "serve" ? serve(arguments, plan) : consume(arguments, plan);
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv,
                               {"role", "host", "address", "body-bytes", "parts", "sets", "batches", "warm-up", "wait"},
                               crossdock::bench::transfer);
}
