#include "suite.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace crossdock::transport::conformance {

std::unique_ptr<Connection> accept_one(Listener& listener) {
  for (;;) {
    if (auto connection = listener.accept()) return connection;
    pollfd ask{listener.descriptor(), POLLIN, 0};
    if (::poll(&ask, 1, kPatienceMs) == 0) throw std::runtime_error("nobody connected");
  }
}

void TransportConformance::connect(const Wishes& wishes) {
  Pair ends = GetParam().connect(wishes);
  server_ = std::move(ends.first);
  client_ = std::move(ends.second);
  ASSERT_NE(server_, nullptr);
  ASSERT_NE(client_, nullptr);
}

void TransportConformance::let_arrive(Connection& from, Connection& to) {
  if (!GetParam().network) return;
  for (int waited_ms = 0; waited_ms < kPatienceMs && !to.readable(); ++waited_ms) {
    from.flush();
    rung(to, 1);
  }
}

void TransportConformance::let_learn(Connection& end) {
  if (!GetParam().network) return;
  rung(end, kPatienceMs);
  EXPECT_FALSE(end.receive());
}

bool TransportConformance::rung(Connection& connection, int timeout_ms) {
  pollfd waiting{connection.descriptor(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

bool TransportConformance::either_rung(Connection& one, Connection& other, int timeout_ms) {
  std::array<pollfd, 2> waiting = {pollfd{one.descriptor(), POLLIN, 0}, pollfd{other.descriptor(), POLLIN, 0}};
  int ready = 0;
  do {
    ready = poll(waiting.data(), waiting.size(), timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

std::optional<TransportConformance::Message> TransportConformance::take(Connection& connection) {
  for (;;) {
    if (const std::optional<Incoming> in = connection.receive()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in->bytes.data()) % 8, 0u) << "messages must be 8-aligned";
      return Message{in->tagged, in->tag, {in->bytes.begin(), in->bytes.end()}};
    }
    if (!connection.prepare_sleep()) continue;
    const bool woken = rung(connection, kPatienceMs);
    connection.wake();
    if (!woken) {
      ADD_FAILURE() << "no message came, and no ring, within " << kPatienceMs << " ms";
      return std::nullopt;
    }
  }
}

std::optional<TransportConformance::Message> TransportConformance::take(Connection& from, Connection& to) {
  for (int waited_ms = 0; GetParam().network && waited_ms < kPatienceMs; ++waited_ms) {
    from.flush();
    if (const std::optional<Incoming> in = to.receive()) {
      return Message{in->tagged, in->tag, {in->bytes.begin(), in->bytes.end()}};
    }
    rung(to, 1);
  }
  return take(to);
}

void TransportConformance::put(Connection& connection, const Message& message) {
  const ByteSpan bytes(message.bytes);
  const ByteSpan head = bytes.first(bytes.size() / 3);
  const ByteSpan tail = bytes.subspan(head.size());
  while (!(message.tagged ? connection.send_tagged(message.tag, head, tail) : connection.send(head, tail))) {
    if (!connection.prepare_sleep()) continue;
    const bool woken = rung(connection, kPatienceMs);
    connection.wake();
    if (!woken) FAIL() << "no room, and no ring, within " << kPatienceMs << " ms";
  }
}

std::vector<std::byte> TransportConformance::pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> out(size);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

}  // namespace crossdock::transport::conformance
