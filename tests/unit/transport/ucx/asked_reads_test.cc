// Reads of the peer's memory by request, with one end that breaks the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "crossdock/core/error.h"
#include "support.h"
#include "transport/net/records.h"
#include "transport/ucx.h"
#include "transport/ucx/control.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::HasSubstr;

constexpr ReceiveLimits kRawLimits = {.max_untagged = 1 << 20, .max_control = kMaxControlBytes, .max_tagged = 1 << 20};

/// A region with 100,000 bytes of a pattern, and their offset.
struct Sample {
  Sample() {
    device::RegionWriter writer("test");
    offset = writer.append(content);
    region = writer.freeze();
  }
  const std::vector<std::byte> content = pattern(100'000);
  std::shared_ptr<const device::Region> region;
  std::uint64_t offset = 0;
};

/// Ends that have shaken hands: one is the transport's connection, the other speaks UCX as its test says.
class UcxAskedReads : public ::testing::Test {
 protected:
  /// Connects our server's end and a raw client.
  void as_server() {
    const auto listener = ucx_listen("", 7, 9, {}, nullptr);
    const SocketAddress address = resolve("ucx", parse_address("ucx", listener->uri().substr(4))).at(0);
    raw_.worker = std::make_shared<Worker>(contexts_.for_remote(address), kRawLimits, "the server");
    raw_.endpoint = Endpoint::connect(raw_.worker, address);
    raw_.endpoint->send_control(
        net::encode(net::Hello{.features = net::kFeatureReads, .max_message = 1 << 20, .max_body = 1 << 20}));
    while (!ours_) {
      raw_.worker->progress();
      ours_ = listener->accept();
    }
    net::Welcome welcome;
    ASSERT_TRUE(net::decode(next_of_raw(), &welcome));
  }
  /// Connects our client's end and a raw server.
  void as_client(const UcxOptions& options = {}, bool reads = true) {
    const auto listener = listen_at(contexts_, "");
    const Ways ways = reads ? Way::kRead : Way::kMessage;
    std::thread connecting(
        [&] { ours_ = ucx_connect(listener->uri().substr(4), options, kLongMs, nullptr, {.ways = ways}); });
    ASSERT_TRUE(run_until({}, listener.get(), [&] { return listener->requests() > 0; }));
    raw_.worker = std::make_shared<Worker>(contexts_.for_local(listener->address()), kRawLimits, "the client");
    raw_.endpoint = listener->accept(raw_.worker);
    net::Hello hello;
    ASSERT_TRUE(net::decode(next_of_raw(), &hello));
    EXPECT_EQ(hello.features & (net::kFeatureReads | net::kFeatureNoBodies),
              reads ? net::kFeatureReads | net::kFeatureNoBodies : 0);
    raw_.endpoint->send_control(net::encode(net::Welcome{.features = net::kFeatureReads, .max_message = 1 << 20}));
    ASSERT_TRUE(run_until({raw_.worker.get()}, listener.get(), [&] { return raw_.worker->sends() == 0; }));
    connecting.join();
    ASSERT_EQ(ours_->agreement().ways, ways);
  }
  /// The next control message that the raw end gets.
  std::vector<std::byte> next_of_raw() {
    std::optional<Received> got;
    const auto came = [&] {
      Control control;
      do {
        got = raw_.worker->take();
      } while (got && decode(got->bytes, &control) && control.kind == ControlKind::kTaken);
      return got.has_value();
    };
    if (!ours_) run_until({raw_.worker.get()}, nullptr, came);
    if (!got) {
      run([&] {
        ours_->receive();
        return came();
      });
    }
    return {got->bytes.begin(), got->bytes.end()};
  }
  void send_raw(ByteSpan message) { ASSERT_TRUE(raw_.endpoint->send_control(message)); }
  void announce_raw(std::uint16_t number, std::uint64_t base, std::uint64_t size) {
    send_raw(encode(RegionAnnouncement{.number = number, .base = base, .size = size}));
  }
  /// Announces the one region of a test, from address 4096 on, and waits until our end knows it.
  void announce_all_raw() {
    announce_raw(1, 4096, 1ull << 40);
    raw_.endpoint->send_tagged(1, {}, {});
    run([&] { return ours_->receive().has_value(); });
  }
  /// Makes progress at both ends, asleep in between, until `done()`.
  template <typename Done>
  void run(Done done) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(kLongMs);
    for (;;) {
      raw_.worker->progress();
      if (done()) return;
      const bool sleeps = ours_->prepare_sleep() && raw_.worker->arm();
      std::array<pollfd, 2> events{{{ours_->descriptor(), POLLIN, 0}, {raw_.worker->descriptor(), POLLIN, 0}}};
      if (sleeps) ::poll(events.data(), events.size(), kLongMs);
      ours_->wake();
      if (Clock::now() > deadline) throw std::runtime_error("nothing happens any more");
    }
  }
  /// Makes progress at both ends until ours throws. Returns the text.
  template <typename Expected>
  std::string error_of_ours() {
    try {
      run([&] {
        ours_->receive();
        return false;
      });
    } catch (const Expected& error) {
      return error.what();
    }
    return {};
  }
  /// Makes progress at both ends until the read has ended.
  void finish(Reading& reading) {
    run([&] {
      if (reading.done()) return true;
      ours_->receive();
      return false;
    });
  }

  UcxContexts contexts_{UcxOptions{}};
  std::unique_ptr<Connection> ours_;
  End raw_;
};

TEST_F(UcxAskedReads, MapARegionOnceForAllItsStreams) {
  as_server();
  const Sample sample;
  ASSERT_EQ(sample.region->data(), nullptr) << "its writer didn't map it";
  const auto mapped = device::readable(sample.region, "a test");
  const auto owners = mapped.use_count();
  for (std::uint16_t round = 0; round < 55; ++round) {
    EXPECT_EQ(ours_->announce(round, sample.region), std::uint64_t{round} << 48) << "no address of this process";
    EXPECT_EQ(mapped.use_count(), owners + 1);
    ASSERT_TRUE(ours_->retire(round));
    EXPECT_EQ(mapped.use_count(), owners);
  }
}

TEST_F(UcxAskedReads, OnlyBytesOfAnnouncedRegionsAreSent) {
  const Sample sample;
  for (const auto& [from, length] : std::vector<std::pair<std::int64_t, std::uint64_t>>{
           {-1, 2}, {0, UINT64_MAX}, {1 << 20, 1}, {100'000, 4096 * 16}, {-4096, 1}}) {
    as_server();
    const auto base = ours_->announce(3, sample.region);
    ASSERT_TRUE(base);
    RegionAnnouncement announced;
    ASSERT_TRUE(decode(next_of_raw(), &announced));
    EXPECT_EQ(announced.number, 3);
    EXPECT_EQ(announced.base, *base);
    EXPECT_EQ(announced.size, sample.region->size());
    const ReadPart part{.address = *base + static_cast<std::uint64_t>(from), .length = length};
    send_raw(encode_read(1, {&part, 1}));
    EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("outside every region that was announced")) << from;
    ours_.reset();
    raw_.close();
  }
}

TEST_F(UcxAskedReads, BytesAcrossTwoRegionsAreNotSent) {
  const Sample one;
  const Sample other;
  as_server();
  const std::uint64_t first = ours_->announce(1, one.region).value();
  const std::uint64_t second = ours_->announce(2, other.region).value();
  const auto [low, high] = std::minmax(first, second);
  const std::uint64_t from = low + one.region->size() - 8;  // both have this size
  const ReadPart part{.address = from, .length = high + 8 - from};
  send_raw(encode_read(1, {&part, 1}));
  EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("outside every region that was announced"));
}

TEST_F(UcxAskedReads, ARetiredRegionIsNotSent) {
  const Sample sample;
  as_server();
  const auto base = ours_->announce(3, sample.region);
  ASSERT_TRUE(ours_->retire(3));
  EXPECT_THROW(ours_->retire(3), std::logic_error);
  const ReadPart part{.address = *base, .length = 8};
  send_raw(encode_read(1, {&part, 1}));
  EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("outside every region"));
}

TEST_F(UcxAskedReads, MalformedRequestsEndTheConnection) {
  const Sample sample;
  const std::vector<ReadPart> one(1);
  const std::vector<ReadPart> many(kMaxPartsOfRead);
  std::vector<std::vector<std::byte>> wrong = {encode_read(1, {}), encode_read(1, one), encode_read(1, one),
                                               encode_read(1, many)};
  wrong[1].pop_back();
  wrong[2][5] = std::byte{1};
  wrong[3].resize(wrong[3].size() + 16);
  for (const std::vector<std::byte>& request : wrong) {
    as_server();
    ASSERT_TRUE(ours_->announce(3, sample.region));
    send_raw(request);
    EXPECT_FALSE(error_of_ours<ProtocolError>().empty());
    ours_.reset();
    raw_.close();
  }
}

TEST_F(UcxAskedReads, AClientThatTakesNoAnswersIsStopped) {
  const auto writer = std::make_unique<device::RegionWriter>("test");
  writer->append(pattern(8 << 20));
  const std::shared_ptr<const device::Region> region = device::readable(writer->freeze(), "test");
  as_server();
  const auto base = ours_->announce(3, region);
  const ReadPart part{.address = *base, .length = 8 << 20};
  // The raw end has UCX send these, and receives nothing.
  for (std::size_t i = 0; i <= kMaxUnanswered; ++i) raw_.endpoint->send_control(encode_read(i, {&part, 1}));
  EXPECT_THROW(
      {
        for (int i = 0; i < 100'000; ++i) {
          raw_.worker->push();
          ours_->receive();
          if (raw_.worker->sends() > 0) continue;
        }
      },
      ProtocolError);
  const auto kept = region.use_count();
  EXPECT_GT(kept, 1);
  ours_.reset();
  EXPECT_EQ(region.use_count(), 1) << "answers that wait end with their connection";
}

TEST_F(UcxAskedReads, RequestsOfManyPartsTakeTheirTurns) {
  const Sample sample;
  as_server();
  const auto base = ours_->announce(3, sample.region);
  constexpr std::size_t kRequests = 40;
  constexpr std::size_t kParts = 512;
  const std::vector<ReadPart> parts(kParts, {.address = *base + sample.offset, .length = 1});
  for (std::size_t i = 0; i < kRequests; ++i) raw_.endpoint->send_control(encode_read(i, parts));
  raw_.worker->push();
  std::uint64_t most = 0;
  const std::uint64_t before = ours_->pushed();
  const auto deadline = Clock::now() + std::chrono::milliseconds(kLongMs);
  while (ours_->pushed() - before < kRequests * kParts && Clock::now() < deadline) {
    const std::uint64_t at = ours_->pushed();
    EXPECT_FALSE(ours_->receive());
    most = std::max(most, ours_->pushed() - at);
    raw_.worker->push();
  }
  EXPECT_GE(ours_->pushed() - before, kRequests * kParts) << "an answer's bytes are pushed";
  EXPECT_LE(most, kParts * 256) << "of a single receive()";
}

TEST_F(UcxAskedReads, PartsUnderWayAreBoundedAndTheRestIsAnsweredLater) {
  const Sample sample;
  const Sample other;
  as_server();
  const auto base = ours_->announce(3, sample.region);
  const auto others_base = ours_->announce(4, other.region);
  for (int i = 0; i < 2; ++i) {
    RegionAnnouncement announced;
    ASSERT_TRUE(decode(next_of_raw(), &announced));
  }
  constexpr std::size_t kRequests = 64;
  constexpr std::size_t kParts = 512;  // a request that UCX sends whole
  constexpr std::size_t kSize = 4096;
  std::vector<std::byte> to(kSize);
  std::vector<ReadPart> parts;
  while (parts.size() < kParts) {
    for (const std::uint64_t address : {*base + sample.offset, *others_base + other.offset}) {
      parts.push_back({.address = address, .length = kSize, .to = to.data()});
    }
  }
  std::vector<std::shared_ptr<Outcome>> outcomes;
  for (std::size_t i = 0; i < kRequests; ++i) outcomes.push_back(raw_.endpoint->ask(parts, nullptr));
  // The raw end sends its requests, and receives nothing.
  const auto mapped = device::readable(sample.region, "a test");
  const auto owners = mapped.use_count();
  for (int quiet = 0; quiet < 200;) {
    const std::uint64_t before = ours_->pushed();
    EXPECT_FALSE(ours_->receive());
    quiet = ours_->pushed() == before ? quiet + 1 : 0;
  }
  EXPECT_LE(mapped.use_count(), owners + static_cast<long>(kRequests)) << "an answer keeps it once";
  constexpr std::size_t kMost = 4 * kMaxPartsOfRead;
  EXPECT_GE(ours_->pushed(), kMost * kSize);
  EXPECT_LT(ours_->pushed(), (kMost + 4 * kParts) * (kSize + 256)) << "what has left by then is little";
  EXPECT_FALSE(ours_->readable()) << "nothing can be done until answers have left";
  EXPECT_TRUE(ours_->prepare_sleep());
  ours_->wake();
  run([&] {
    EXPECT_FALSE(ours_->receive());
    return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome->over(); });
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome->status(), UCS_OK);
  EXPECT_TRUE(same(to, ByteSpan(sample.content).first(kSize)));
  EXPECT_GE(ours_->pushed(), kRequests * kParts * kSize);
}

TEST_F(UcxAskedReads, AClientAnnouncesAndRetiresNothing) {
  for (const bool retires : {false, true}) {
    as_server();
    if (retires) {
      send_raw(encode(Control{ControlKind::kRetire, 1}));
    } else {
      announce_raw(1, 4096, 64);
    }
    EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("which this end didn't agree to"));
    ours_.reset();
    raw_.close();
  }
}

TEST_F(UcxAskedReads, WithoutTheWayNothingIsAnnounced) {
  as_client({}, /*reads=*/false);
  announce_raw(1, 4096, 64);
  EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("which this end didn't agree to"));
}

TEST_F(UcxAskedReads, AnswersThatWereNotAskedForEndTheConnection) {
  for (const bool other_size : {true, false}) {
    as_client();
    announce_all_raw();
    std::vector<std::byte> to(1000);
    const ReadPart part{.address = 5000, .length = to.size(), .to = to.data()};
    const auto reading = ours_->read({&part, 1}, nullptr);
    ReadRequest request;
    const std::vector<std::byte> asked = next_of_raw();
    ASSERT_TRUE(decode(asked, &request));
    EXPECT_EQ(request.part(0).address, 5000u);
    const std::vector<std::byte> bytes = pattern(other_size ? 1001 : 1000);
    const std::array<ByteSpan, 1> parts = {bytes};
    raw_.endpoint->send_answer(other_size ? request.id : request.id + 1, parts, nullptr);
    // Who waits for reads alone is woken as well.
    ours_->wait_for_reads_only(true);
    run([&] { return ours_->readable(); });
    EXPECT_THROW(reading->done(), ProtocolError) << "the reason, without taking messages";
    EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("the answer to a read that doesn't exist"));
    ours_.reset();
    EXPECT_EQ(to, std::vector<std::byte>(1000)) << "nothing was written";
    raw_.close();
  }
}

TEST_F(UcxAskedReads, AnswersOfAllSizesGoWhereTheyBelong) {
  as_client();
  announce_all_raw();
  for (const std::size_t size : {1u, 1000u, 60'000u, 200'000u, 5'000'000u}) {
    const std::vector<std::byte> bytes = pattern(3 * size, 5);
    auto to = std::make_shared<std::vector<std::byte>>(4 * size);
    const std::weak_ptr<const void> kept = to;
    const std::array<ReadPart, 4> wanted = {ReadPart{4096, size, to->data() + 3 * size}, ReadPart{4096, 0, nullptr},
                                            ReadPart{1 << 20, size, to->data()},
                                            ReadPart{1 << 30, size, to->data() + size}};
    const auto reading = ours_->read(wanted, to);
    ReadRequest request;
    const std::vector<std::byte> asked = next_of_raw();
    ASSERT_TRUE(decode(asked, &request));
    ASSERT_EQ(request.count(), 3u);
    EXPECT_EQ(request.part(2).address, 1u << 30);
    const std::array<ByteSpan, 2> parts = {ByteSpan(bytes).first(size / 2), ByteSpan(bytes).subspan(size / 2)};
    raw_.endpoint->send_answer(request.id, parts, nullptr);
    finish(*reading);
    EXPECT_TRUE(same(ByteSpan(*to).subspan(3 * size), ByteSpan(bytes).first(size))) << size;
    EXPECT_TRUE(same(ByteSpan(*to).first(2 * size), ByteSpan(bytes).subspan(size))) << size;
    to.reset();
    EXPECT_TRUE(kept.expired());
  }
}

TEST_F(UcxAskedReads, AReadOfManyPartsIsAskedForInSeveralRequests) {
  const Sample sample;
  as_client();
  announce_all_raw();
  std::vector<std::byte> to(2 * kMaxPartsOfRead + 10);
  std::vector<ReadPart> parts;
  for (std::size_t i = 0; i < to.size(); ++i) parts.push_back({4096 + i, 1, to.data() + i});
  const auto reading = ours_->read(parts, nullptr);
  std::size_t answered = 0;
  for (const std::size_t expected : {kMaxPartsOfRead, kMaxPartsOfRead, std::size_t{10}}) {
    EXPECT_FALSE(reading->done());
    ReadRequest request;
    const std::vector<std::byte> asked = next_of_raw();
    ASSERT_TRUE(decode(asked, &request));
    ASSERT_EQ(request.count(), expected);
    const std::array<ByteSpan, 1> bytes = {ByteSpan(sample.content).subspan(answered, expected)};
    raw_.endpoint->send_answer(request.id, bytes, nullptr);
    answered += expected;
  }
  finish(*reading);
  EXPECT_TRUE(same(to, ByteSpan(sample.content).first(to.size())));
}

TEST_F(UcxAskedReads, TooManyAtOnceFindNoRoom) {
  as_client();
  announce_all_raw();
  std::byte to{};
  const ReadPart part{.address = 4096, .length = 1, .to = &to};
  std::vector<std::unique_ptr<Reading>> readings;
  while (auto reading = ours_->read({&part, 1}, nullptr)) readings.push_back(std::move(reading));
  EXPECT_EQ(readings.size(), 64u);
}

TEST_F(UcxAskedReads, WrongAnnouncementsEndTheConnection) {
  const auto refused = [&](const std::vector<std::array<std::uint64_t, 3>>& announcements, const char* why) {
    as_client();
    for (const auto& [number, base, size] : announcements) announce_raw(static_cast<std::uint16_t>(number), base, size);
    EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr(why));
    ours_.reset();
    raw_.close();
  };
  refused({{1, 4096, 64}, {1, 8192, 64}}, "this number is in use");
  refused({{1, 4096, 0}}, "it has no bytes");
  refused({{1, UINT64_MAX - 10, 64}}, "it ends behind the last address");
  refused({{1, 4096, 64}, {2, 4159, 64}}, "it overlaps another");
  refused({{1, 4096, 64}, {2, 4000, 97}}, "it overlaps another");
  as_client();
  send_raw(encode(Control{ControlKind::kRetire, 5}));
  EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("retired region 5, which it hadn't announced"));
}

TEST_F(UcxAskedReads, MoreAnnouncementsThanTheOptionAllowsEndTheConnection) {
  for (const bool too_many : {false, true}) {
    UcxOptions options;
    options.max_regions = 2;
    as_client(options);
    announce_raw(1, 4096, 64);
    announce_raw(2, 8192, 64);
    if (!too_many) send_raw(encode(Control{ControlKind::kRetire, 1}));
    announce_raw(3, 12288, 64);
    raw_.endpoint->send_tagged(1, {}, {});
    if (too_many) {
      EXPECT_THAT(error_of_ours<ProtocolError>(), HasSubstr("more than the 2 regions that are allowed here"));
    } else {
      run([&] { return ours_->receive().has_value(); });
      EXPECT_TRUE(ours_->peer_region(12288, 0, nullptr)->contains(12288, 64));
    }
    ours_.reset();
    raw_.close();
  }
}

TEST_F(UcxAskedReads, OfMemoryThatWasNotAnnouncedAreRefusedAndTheConnectionGoesOn) {
  as_client();
  EXPECT_THROW(ours_->peer_region(4096, 0, nullptr), ProtocolError) << "nothing was announced";
  announce_raw(1, 4096, 1000);
  raw_.endpoint->send_tagged(1, {}, {});
  run([&] { return ours_->receive().has_value(); });
  EXPECT_THROW(ours_->peer_region(4095, 0, nullptr), ProtocolError);
  std::vector<std::byte> to(1000);
  for (const std::uint64_t address : {4095u, 4097u, 5096u, 0u}) {
    const ReadPart part{.address = address, .length = to.size(), .to = to.data()};
    const auto reading = ours_->read({&part, 1}, nullptr);
    ASSERT_NE(reading, nullptr);
    EXPECT_THROW(reading->done(), ProtocolError) << address;
  }
  const ReadPart part{.address = 4096, .length = to.size(), .to = to.data()};
  const auto reading = ours_->read({&part, 1}, nullptr);
  ReadRequest request;
  const std::vector<std::byte> asked = next_of_raw();
  ASSERT_TRUE(decode(asked, &request));
  EXPECT_EQ(request.part(0).address, 4096u) << "what was refused wasn't asked for";
  const std::vector<std::byte> bytes = pattern(1000);
  const std::array<ByteSpan, 1> parts = {bytes};
  raw_.endpoint->send_answer(request.id, parts, nullptr);
  finish(*reading);
  EXPECT_EQ(to, bytes);
}

TEST_F(UcxAskedReads, APeerThatGoesEndsThem) {
  for (const bool in_the_middle : {false, true}) {
    as_client();
    announce_all_raw();
    auto to = std::make_shared<std::vector<std::byte>>(64 << 20);
    const ReadPart part{.address = 4096, .length = to->size(), .to = to->data()};
    const auto reading = ours_->read({&part, 1}, to);
    ReadRequest request;
    const std::vector<std::byte> asked = next_of_raw();
    ASSERT_TRUE(decode(asked, &request));
    const std::vector<std::byte> bytes = pattern(64 << 20);
    const std::array<ByteSpan, 1> parts = {bytes};
    if (in_the_middle) {
      raw_.endpoint->send_answer(request.id, parts, nullptr);
      run([&] {  // until the first bytes are there
        ours_->receive();
        return to->at(1) != std::byte{0};
      });
    }
    raw_.close();
    const auto before = Clock::now();
    const auto ended = [&] {
      for (;;) {
        if (reading->done()) return;
        try {
          ours_->receive();
        } catch (const ConnectionError&) {  // the reading says so as well
        }
        if (Clock::now() - before > std::chrono::seconds(20)) return;
      }
    };
    EXPECT_THROW(ended(), ConnectionError);
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(5));
    ours_.reset();
    EXPECT_EQ(to.use_count(), 1);
  }
}

TEST_F(UcxAskedReads, ARegionThatFoundNoRoomNeedsNothingButToBeAnnouncedOrRetiredAgain) {
  as_server();
  const Sample sample;
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(10'000));
  const ByteSpan bytes(*body);
  const auto fill = [&] {
    while (ours_->send_body(7, {&bytes, 1}, body)) {
    }
  };
  // Nothing else is called at our end, as by an owner whose other half has no work left.
  const auto accepted = [&](const auto& call) {
    return run_until({raw_.worker.get()}, nullptr, [&] {
      while (raw_.worker->take()) {
      }
      return call();
    });
  };
  fill();
  EXPECT_TRUE(accepted([&] { return ours_->announce(1, sample.region).has_value(); }));
  fill();
  EXPECT_TRUE(accepted([&] { return ours_->retire(1); }));
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
