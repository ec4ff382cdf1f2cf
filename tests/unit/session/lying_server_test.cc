// Servers that speak a transport well and the protocol badly: over each transport whose bodies go by address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "fake_server.h"
#include "support/leftovers.h"
#include "transport/fabric.h"
#include "transport/memory.h"
#include "transport/ucx.h"

namespace crossdock::session {
namespace {

using dissociated::BodyType;
using dissociated::RemoteBuffer;
using ::testing::AnyOf;
using transport::Connection;
using transport::Way;

/// A transport, and how its clients take bodies.
struct Carrier {
  const char* name;
  std::function<std::shared_ptr<const transport::Transport>()> make;
  Way way;
  std::uint64_t addresses;       ///< From a region's first byte on, that belong to its number.
  bool waits_for_announcements;  ///< For some seconds, where a body names a region that isn't known.
};
void PrintTo(const Carrier& carrier, std::ostream* out) { *out << carrier.name; }

/// Of the in-process transport.
std::atomic<int> reads_begun{0};

const Carrier kCarriers[] = {
    {"shm", [] { return transport::make_shm_transport(); }, Way::kMap, 1ull << 48, true},
    {"memory",
     [] {
       const auto count = [](std::uint64_t) {
         ++reads_begun;
         return 0;
       };
       return transport::make_memory_transport({.ways = Way::kRead | Way::kMessage, .reads = count});
     },
     Way::kRead, 1ull << 44, true},
    {"ucx", [] { return transport::make_ucx_transport(); }, Way::kRead, 1ull << 48, false},
    {"fabric", [] { return transport::make_fabric_transport(); }, Way::kRead, 1ull << 48, false},
};

/// Whether the client gets all columns or one.
class LyingServer : public ::testing::TestWithParam<std::tuple<Carrier, bool>> {
 protected:
  void SetUp() override {
    if (carrier().name == std::string_view("ucx") && !transport::find_ucx().found) GTEST_SKIP() << "no UCX";
    if (carrier().name == std::string_view("fabric") && !transport::find_fabric().found) GTEST_SKIP() << "no libfabric";
    transport_ = carrier().make();
  }
  static const Carrier& carrier() { return std::get<0>(GetParam()); }
  static bool all_columns() { return std::get<1>(GetParam()); }

  std::string outcome(const FakeServer::Script& script) const {
    auto transports = std::make_shared<transport::TransportRegistry>();
    transports->add(transport_);
    ClientOptions of_client;
    of_client.way = carrier().way;
    of_client.transports = transports;
    GetOptions options;
    if (!all_columns()) options.columns = {"number"};
    return outcome_of(FakeServer(script, *transport_), of_client, options);
  }

  std::shared_ptr<const transport::Transport> transport_;
};

/// Sends a stream of one batch, bent by `lie`.
template <typename Lie>
FakeServer::Script stream_with(Lie lie) {
  return [lie](Connection& c) {
    Truth truth;
    truth.announce(c);
    lie(truth, c);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    Truth::end(c, 2);
  };
}

/// The same as the second batch, after an honest one whose metadata it repeats.
template <typename Lie>
FakeServer::Script stream_with_second(Lie lie) {
  return [lie](Connection& c) {
    Truth truth;
    truth.announce(c);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    lie(truth, c);
    truth.record_batch(c, 2);
    truth.body(c, 2);
    Truth::end(c, 3);
  };
}

/// Names the last bytes of one region and the first of another as one buffer.
void span_two_regions(Truth& truth, Connection& c) {
  const Truth other;
  const std::uint64_t second = c.announce(8, other.region).value();
  const auto [low, high] = std::minmax(truth.base, second);
  truth.remote[1].address = low + truth.region->size() - 8;
  truth.remote[1].length = high - truth.remote[1].address + 8;
  truth.batch.buffers[1].size = static_cast<std::int64_t>(truth.remote[1].length);
}

TEST_P(LyingServer, IsFoundOutBeforeAByteIsRead) {
  const auto honest = [](Truth&, Connection&) {};
  ASSERT_EQ(outcome(stream_with(honest)), "well");
  ASSERT_EQ(outcome(stream_with_second(honest)), "well");
  using Lie = std::function<void(Truth&, Connection&)>;
  std::vector<std::pair<const char*, Lie>> lies = {
      {"a buffer beyond the region", [](Truth& t, auto&) { t.remote[1].address += t.region->size(); }},
      {"a buffer across the region's end",
       [](Truth& t, auto&) { t.remote[1].address = t.base + t.region->size() - 8; }},
      {"a buffer across two regions", span_two_regions},
      {"the last address of the region's number",
       [](Truth& t, auto&) { t.remote[1].address = t.base + carrier().addresses - 1; }},
      {"a buffer shorter than its metadata says", [](Truth& t, auto&) { t.remote[1].length -= 8; }},
      {"a buffer longer than its metadata says", [](Truth& t, auto&) { t.remote[1].length += 8; }},
      {"a buffer too many", [](Truth& t, auto&) { t.remote.push_back(t.remote[1]); }},
      {"a buffer too few", [](Truth& t, auto&) { t.remote.pop_back(); }},
      {"no buffers", [](Truth& t, auto&) { t.remote.clear(); }},
      {"a total that isn't the sum", [](Truth& t, auto&) { t.too_much = 8; }},
      {"an address without a length", [](Truth& t, auto&) { t.remote[0].address = t.remote[1].address; }},
      {"fewer values than rows",
       [](Truth& t, auto&) {
         t.batch.buffers[1].size = 8;
         t.remote[1].length = 8;
       }},
      {"more rows than there is memory",
       [](Truth& t, auto&) {
         t.batch.num_rows = std::int64_t{1} << 62;
         for (auto& node : t.batch.nodes) node.length = t.batch.num_rows;
       }},
  };
  if (!carrier().waits_for_announcements) {  // else these could be of a region whose announcement is late
    lies.emplace_back("a buffer before the region", [](Truth& t, auto&) { t.remote[1].address = t.base - 8; });
    lies.emplace_back("the highest address there is", [](Truth& t, auto&) { t.remote[1].address = UINT64_MAX; });
  }
  for (const auto& [what, lie] : lies) {
    reads_begun = 0;
    EXPECT_THAT(outcome(stream_with(lie)), AnyOf("ProtocolError", "InvalidDataError")) << what;
    EXPECT_EQ(reads_begun, 0) << what;
    EXPECT_THAT(outcome(stream_with_second(lie)), AnyOf("ProtocolError", "InvalidDataError")) << what;
    EXPECT_LE(reads_begun, 1) << what << ", in the second batch";
  }
}

TEST_P(LyingServer, IsFoundOutByTheContentOfTheColumnsThatAreTaken) {
  const auto lie = [](Truth& t, auto&) { t.remote[3].address = t.remote[4].address; };  // numbers, not offsets
  const std::string expected = all_columns() ? "InvalidDataError" : "well";
  const std::string mapped = "InvalidDataError";  // the whole body is there and is checked
  EXPECT_EQ(outcome(stream_with(lie)), carrier().way == Way::kMap ? mapped : expected);
  EXPECT_EQ(outcome(stream_with_second(lie)), carrier().way == Way::kMap ? mapped : expected);
}

TEST_P(LyingServer, GivesNoMemoryThatItDoesNotAnnounceOrHasRetired) {
  // Who waits for announcements that are late gives up when the server has gone.
  const auto leave = [](const Connection&) {
    if (carrier().waits_for_announcements) throw ConnectionError("the server leaves");
  };
  const auto never = [leave](Connection& c) {
    const Truth other;
    Truth truth;
    c.announce(8, other.region);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    leave(c);
  };
  const auto retired = [leave](Connection& c) {
    Truth truth;
    truth.announce(c);
    truth.schema(c);
    truth.record_batch(c);
    c.retire(7);
    truth.body(c);
    leave(c);
  };
  const auto retired_after_use = [leave](Connection& c) {
    Truth truth;
    truth.announce(c);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    c.retire(7);
    truth.record_batch(c, 2);
    truth.body(c, 2);
    leave(c);
  };
  for (const FakeServer::Script& script : {FakeServer::Script(never), FakeServer::Script(retired)}) {
    reads_begun = 0;
    const std::string got = outcome(script);
    if (carrier().waits_for_announcements) {
      EXPECT_THAT(got, AnyOf("ProtocolError", "ConnectionError", "TruncatedStreamError"));
    } else {
      EXPECT_EQ(got, "ProtocolError");
    }
    EXPECT_EQ(reads_begun, 0);
  }
  EXPECT_THAT(outcome(retired_after_use), AnyOf("ProtocolError", "ConnectionError", "TruncatedStreamError"));
}

TEST_P(LyingServer, IsFoundOutThoughItMixesUpItsMessages) {
  const std::vector<std::pair<const char*, FakeServer::Script>> scripts = {
      {"a batch before the schema",
       [](auto& c) {
         Truth t;
         t.record_batch(c, 0);
       }},
      {"a second schema",
       [](auto& c) {
         Truth t;
         t.schema(c);
         t.schema(c, 1);
       }},
      {"an end at once", [](auto& c) { Truth::end(c, 0); }},
      {"an end before the last message",
       [](auto& c) {
         Truth t;
         t.schema(c);
         t.record_batch(c, 5);
         Truth::end(c, 3);
       }},
      {"metadata that is none", [](auto& c) { Truth::metadata(c, 0, as_bytes("this is no flatbuffer, surely")); }},
      {"a message of no known type", [](auto& c) { c.send(as_bytes("\x77xxxxxxxx"), {}); }},
      {"a body of no known type", [](auto& c) { c.send_tagged(std::uint64_t{9} << 56, {}, {}); }},
      {"a body for the schema", [](auto& c) { c.send_tagged(0, {}, {}); }},
      {"a packed body that is too short",
       [](auto& c) {
         Truth t;
         t.schema(c);
         t.record_batch(c);
         c.send_tagged(dissociated::write_tag(1, BodyType::kPacked), as_bytes("short"), {});
       }},
      {"a packed body that is too short, behind one that is read",
       [](auto& c) {
         Truth t;
         t.announce(c);
         t.schema(c);
         t.record_batch(c);
         t.body(c);
         t.record_batch(c, 2);
         c.send_tagged(dissociated::write_tag(2, BodyType::kPacked), as_bytes("short"), {});
       }},
      {"a dictionary that no field has",
       [](auto& c) {
         Truth t;
         t.schema(c);
         auto values = testing::number_batch(0, 1);
         Truth::metadata(c, 1, t.encoder.dictionary_batch(values, 5, false));
         t.body(c);
       }},
  };
  for (const auto& [what, script] : scripts) {
    EXPECT_THAT(outcome(script), AnyOf("ProtocolError", "InvalidDataError")) << what;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Carrier, bool>>& info) {
  const auto& [carrier, all] = info.param;
  return std::string(carrier.name) + (all ? "" : "_columns");
}

INSTANTIATE_TEST_SUITE_P(Over, LyingServer, ::testing::Combine(::testing::ValuesIn(kCarriers), ::testing::Bool()),
                         name_of);

}  // namespace
}  // namespace crossdock::session
