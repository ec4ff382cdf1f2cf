#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "transport/transport.h"

/// The rules of transport.h, tested once for every transport. A transport plugs in with a file that describes it as an
/// Implementation and calls INSTANTIATE_TEST_SUITE_P(<Name>, TransportConformance, ::testing::Values(<implementation>),
/// implementation_name).
namespace crossdock::transport::conformance {

using Pair = std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>>;

/// What a case asks of the connection that it is given.
struct Wishes {
  Agreement agreement;
  std::uint64_t max_message = 64 << 10;  ///< Exactly.
  bool small_queue = false;              ///< As little room as the transport can be made to have.
};

/// A transport, and how it differs: declared here, so that no case is skipped in silence.
struct Implementation {
  std::string name;
  /// A server's end and a client's end, connected, handshake done.
  std::function<Pair(const Wishes&)> connect;
  /// The address under which the peer of an end that announces a region knows its first byte; none: it can't be
  /// foretold.
  std::function<std::uint64_t(std::uint16_t number, const device::Region& region)> base;
  /// Regions pass both ways. False: from the server's end (the first one) only.
  bool regions_both_ways = true;
  /// A message as large as max_message fits into the empty queue at once. False: send() takes it, and flush() pushes it
  /// on.
  bool takes_largest_at_once = true;
  /// What the other end learns of us by the handshake is our own process and user. False: `agreement` comes out as it
  /// was wished.
  bool real_credentials = false;
  /// The ends are told that they are processes of one user on one machine.
  bool same_user = true;
  /// A network lies between the ends: what is sent arrives a little later, waits partly in the sender until that is
  /// pushed on, and what was taken is known only once the sender has received. The descriptor is readable whenever
  /// something arrived, asked for or not.
  bool network = false;
  /// Every tagged message has an owner, not only those that were sent by send_body().
  bool tagged_have_owners = false;
  /// Returns why this transport can't be tested on this machine; empty: it can.
  std::function<std::string()> unavailable = [] { return std::string(); };
};

inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
inline std::string implementation_name(const ::testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// How long a case waits for something that must happen, before it fails. No case waits this long when all is well.
inline constexpr int kPatienceMs = 20'000;

/// Waits for the next connection of a listener. Throws where none comes.
std::unique_ptr<Connection> accept_one(Listener& listener);

class TransportConformance : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (const std::string why = GetParam().unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
  void connect(const Wishes& wishes = {});

  /// A copy of a message that arrived.
  struct Message {
    bool tagged = false;
    std::uint64_t tag = 0;
    std::vector<std::byte> bytes;
    bool operator==(const Message&) const = default;
  };

  /// Waits for the next message, sleeping properly. Fails the test and returns nothing if none comes.
  static std::optional<Message> take(Connection& connection);
  /// The same for a case that plays both ends: pushes on what waits in the sender.
  static std::optional<Message> take(Connection& from, Connection& to);
  /// Sends, waiting for room as a sender that also receives does. The peer must be draining.
  static void put(Connection& connection, const Message& message);
  /// What the transport's network does by itself, and the other end's owner: waits until something has arrived at `to`,
  /// pushing `from` on. Does nothing without a network.
  static void let_arrive(Connection& from, Connection& to);
  /// Has an end learn what the other has told of itself. There must be no message for it.
  static void let_learn(Connection& end);
  /// True once descriptor() is readable; false after `timeout_ms`.
  static bool rung(Connection& connection, int timeout_ms);
  /// The same for either of two.
  static bool either_rung(Connection& one, Connection& other, int timeout_ms);
  static std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed);

  /// Whether regions reach the other end by this way.
  bool has(Way way) const { return server_->agreement().ways.has(way); }
  /// The memory behind what the peer announced, or would announce, under this number.
  std::shared_ptr<const device::Region> mapped(Connection& end, std::uint16_t number, const device::Region& region,
                                               int timeout_ms, const InterruptHook& interrupted = nullptr) const {
    return end.peer_region(GetParam().base(number, region), timeout_ms, interrupted)->mapped;
  }

  std::unique_ptr<Connection> server_;
  std::unique_ptr<Connection> client_;
};

}  // namespace crossdock::transport::conformance
