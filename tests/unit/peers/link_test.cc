#include "peers/link.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "crossdock/core/error.h"
#include "support/leftovers.h"
#include "support/peer_links.h"

namespace crossdock::peers {
namespace {

using ::testing::HasSubstr;
using testing::peer_connections;
using testing::PeerHub;
using Bytes = std::vector<std::byte>;

/// A link whose peer is this test, which writes what it likes.
class HostilePeer : public testing::NoLeftovers {
 protected:
  void SetUp() override {
    testing::NoLeftovers::SetUp();
    hub_.emplace();
    auto [here, there] = peer_connections(1000);
    PeerOptions options;
    options.window_messages = 4;
    options.window_bytes = 10'000;
    link_ = hub_->link(std::move(here), options);
    there_ = std::move(there);
  }
  void TearDown() override {
    EXPECT_TRUE(link_ == nullptr || !link_->turn());
    link_.reset();
    there_.reset();
    hub_.reset();
    testing::NoLeftovers::TearDown();
  }

  void open() {
    there_->send(wire::encode(wire::Open{.window_messages = 4,
                                         .max_frames = 10,
                                         .window_bytes = 1 << 20,
                                         .max_body = 1 << 20,
                                         .max_regions = 10,
                                         .software = "9"}),
                 {});
    turn();
    ASSERT_TRUE(link_->open());
  }
  void turn() {
    hub_->run_copies();
    while (link_->turn()) hub_->run_copies();
  }
  void send_body(const Bytes& body, std::uint64_t tag = wire::kMessageTag) {
    ASSERT_TRUE(there_->send_body(tag, std::array{ByteSpan(body)}, nullptr));
  }
  /// The link must have ended with an error of this text, and nothing of what came is returned.
  void expect_broken(const char* text) {
    turn();
    ASSERT_TRUE(link_->over());
    try {
      while (link_->try_recv()) {
      }
      FAIL() << "it has not ended";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.code(), ::testing::AnyOf(ErrorCode::kProtocol, ErrorCode::kHandshake));
    }
    EXPECT_THROW(link_->send({}, {}, nullptr), Error);
  }
  /// Receives until the link's control messages are there; returns the number of messages.
  int drain() {
    int n = 0;
    while (there_->receive()) ++n;
    return n;
  }

  std::optional<PeerHub> hub_;
  std::shared_ptr<Link> link_;
  std::unique_ptr<transport::Connection> there_;
};

TEST_F(HostilePeer, SendsSomethingBeforeOpen) {
  there_->send(wire::encode(wire::End::kClosed), {});
  expect_broken("before OPEN");
}

TEST_F(HostilePeer, SendsAMessageBeforeOpen) {
  send_body(wire::encode_start({}, {}));
  expect_broken("isn't expected");
}

TEST_F(HostilePeer, SpeaksAnotherVersion) {
  there_->send(wire::encode(wire::Open{.version = 9, .window_messages = 1, .software = "7.5"}), {});
  expect_broken("version 9");
}

TEST_F(HostilePeer, SendsOpenTwice) {
  open();
  there_->send(wire::encode(wire::Open{.window_messages = 1}), {});
  expect_broken("OPEN twice");
}

TEST_F(HostilePeer, SendsAnotherTagOrNoBody) {
  open();
  there_->send_tagged(wire::kMessageTag, wire::encode_start({}, {}), {});
  expect_broken("isn't expected");
}

TEST_F(HostilePeer, SendsAnUnknownTag) {
  open();
  send_body(wire::encode_start({}, {}), 77);
  expect_broken("tag 77");
}

TEST_F(HostilePeer, SendsMetaThatIsNone) {
  open();
  Bytes body = wire::encode_start({}, {});
  store_le(&body[8], ~std::uint64_t{0});
  send_body(body);
  expect_broken("meta");
}

TEST_F(HostilePeer, SendsMoreThanTheWindowAllows) {
  open();
  for (int i = 0; i < 5; ++i) send_body(wire::encode_start({}, {}));
  turn();
  EXPECT_TRUE(link_->over());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(link_->try_recv()) << "what came before stays";
  EXPECT_THROW(link_->try_recv(), ProtocolError);
}

TEST_F(HostilePeer, SendsMoreBytesThanTheWindowAllows) {
  open();
  for (int i = 0; i < 2; ++i) send_body(wire::encode_start({}, Bytes(9'000)));
  turn();
  EXPECT_TRUE(link_->over());
  EXPECT_TRUE(link_->try_recv());
  EXPECT_THROW(link_->try_recv(), ProtocolError);
}

TEST_F(HostilePeer, NamesAnAddressThatCanBeNone) {
  open();
  send_body(wire::encode_start(std::vector<wire::FrameEntry>{{100, ~std::uint64_t{0}, 0}}, {}));
  expect_broken("no region");
}

TEST_F(HostilePeer, NamesBytesOutsideOfARegion) {
  open();
  const auto memory = hub_->pool->allocate(10'000);
  const auto lease = hub_->pool->lend(memory.get(), 10'000);
  const std::uint64_t base = *there_->announce(0, lease->region);
  send_body(wire::encode_start(std::vector<wire::FrameEntry>{{lease->region->size(), base + 1, 0}}, {}));
  expect_broken("outside of the region");
}

TEST_F(HostilePeer, ReleasesWhatItDoesNotHave) {
  open();
  there_->send(wire::encode(wire::Return{0, 0, {{0, 1}}}), {});
  expect_broken("of which it has 0");
}

TEST_F(HostilePeer, ReleasesTwice) {
  open();
  const Bytes bytes(100'000);
  link_->send(std::array{OutgoingFrame{bytes.data(), bytes.size(), nullptr}}, {}, [](const std::exception_ptr&) {});
  turn();
  EXPECT_EQ(link_->stats().regions_with_peer, 1u);
  drain();
  there_->send(wire::encode(wire::Return{1, 0, {{0, 1}}}), {});
  turn();
  EXPECT_EQ(link_->stats().regions_with_peer, 0u);
  EXPECT_EQ(hub_->pool->stats().lent_bytes, 0u);
  there_->send(wire::encode(wire::Return{1, 0, {{0, 1}}}), {});
  expect_broken("of which it has 0");
}

TEST_F(HostilePeer, ReleasesMoreFramesThanItHasAndLeavesTheirMemoryAlone) {
  open();
  const Bytes bytes(100'000);
  link_->send(std::array{OutgoingFrame{bytes.data(), bytes.size(), nullptr}}, {}, [](const std::exception_ptr&) {});
  turn();
  there_->send(wire::encode(wire::Return{1, 0, {{0, 2}}}), {});
  expect_broken("of which it has 1");
  EXPECT_EQ(hub_->pool->stats().idle_bytes, 0u) << "the peer may go on reading: the block isn't used again";
}

TEST_F(HostilePeer, TookWhatItWasNotSent) {
  open();
  there_->send(wire::encode(wire::Return{1, 0, {}}), {});
  expect_broken("wasn't sent");
}

TEST_F(HostilePeer, GoesOnAfterItsEnd) {
  open();
  there_->send(wire::encode(wire::End::kClosed), {});
  send_body(wire::encode_start({}, {}));
  turn();
  EXPECT_TRUE(link_->over());
  EXPECT_THROW(link_->try_recv(), ConnectionError) << "it had closed the connection before";
}

TEST_F(HostilePeer, SendsGarbage) {
  open();
  there_->send(Bytes(7, std::byte{1}), {});
  expect_broken("shorter than 8 bytes");
}

// --- two links, in every order ---

Bytes content(std::uint64_t message, std::size_t frame, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(message * 7 + frame * 3 + i / 512);
  return bytes;
}

/// Two links whose steps a seed puts in order. One may be killed.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    const std::array<transport::Ways, 2> ways = {transport::Way::kMap | transport::Way::kMessage,
                                                 transport::Way::kMessage};
    auto [a, b] = peer_connections(1 + pick(6), ways[pick(4) == 0 ? 1 : 0]);
    PeerOptions options;
    options.share_from = 2000;
    options.window_messages = static_cast<std::uint32_t>(1 + pick(5));
    options.window_bytes = 1 + pick(20'000);
    options.max_regions = static_cast<std::uint32_t>(1 + pick(6));
    options.lease_limit = 1 + pick(300'000);
    ends_[0].link = hub_.link(std::move(a), options);
    ends_[1].link = hub_.link(std::move(b), options);
  }

  void run() {
    for (int step = 0; step < 400; ++step) {
      const std::size_t which = pick(2);
      End& end = ends_[which];
      if (!end.link) continue;
      switch (pick(8)) {
        case 0:
        case 1: send(end); break;
        case 2: receive(end, ends_[1 - which]); break;
        case 3: drop_one(end); break;
        case 4: hub_.run_copies(); break;
        case 5:
          if (pick(60) == 0) close(end);
          break;
        case 6:
          if (pick(100) == 0) kill(end);
          break;
        default: turn(end);
      }
      check_held();
      if (::testing::Test::HasFailure()) return;
    }
    finish();
  }

 private:
  struct Held {
    std::uint64_t message;
    std::size_t frame;
    Frame bytes;
  };
  struct End {
    std::shared_ptr<Link> link;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    bool closed = false;
    bool forgotten = false;
    std::vector<Held> held;
    std::shared_ptr<int> unsent = std::make_shared<int>(0);
  };
  std::size_t pick(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  /// As a hub does.
  static void turn(End& end) {
    end.link->turn();
    if (end.link->over() && !std::exchange(end.forgotten, true)) end.link->forget();
  }

  void send(End& end) {
    if (end.closed || !end.link->open() || *end.unsent > 3) return;
    std::vector<Bytes> all;
    std::vector<OutgoingFrame> frames;
    const std::size_t count = pick(4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::array<std::size_t, 5> sizes = {0, 100, 1999, 2000, 70'000};
      const Bytes bytes = content(end.sent, i, sizes[pick(5)]);
      if (pick(3) == 0 && !bytes.empty()) {
        auto memory = hub_.pool->allocate(bytes.size());
        std::memcpy(memory.get(), bytes.data(), bytes.size());
        frames.push_back({memory.get(), bytes.size(), memory});
      } else {
        auto owner = std::make_shared<Bytes>(bytes);
        frames.push_back({owner->data(), owner->size(), owner});
      }
    }
    std::array<std::byte, 8> meta{};
    store_le(meta.data(), end.sent);
    try {
      ++*end.unsent;
      if (end.link->send(frames, meta, [unsent = end.unsent](const std::exception_ptr&) { --*unsent; })) --*end.unsent;
      ++end.sent;
    } catch (const ConnectionError&) {
      --*end.unsent;
    }
  }

  void receive(End& end, const End& from) {
    if (end.closed) return;
    try {
      while (std::optional<Message> message = end.link->try_recv()) {
        const auto number = load_le<std::uint64_t>(message->meta().data());
        ASSERT_EQ(number, end.received) << "in order, none lost";
        ASSERT_LT(number, from.sent);
        ++end.received;
        for (std::size_t i = 0; i < message->frames().size(); ++i) {
          const Frame& frame = message->frames()[i];
          if (frame.size > 0) end.held.push_back({number, i, frame});
        }
      }
    } catch (const ConnectionError&) {
    }
  }

  void drop_one(End& end) {
    if (end.held.empty()) return;
    std::swap(end.held[pick(end.held.size())], end.held.back());
    end.held.pop_back();
  }

  void close(End& end) {
    if (end.closed) return;
    end.closed = true;
    if (pick(2) == 0) {
      end.link->close([](const std::exception_ptr&) {});
    } else {
      end.link->abort();
    }
  }

  /// As the end of its process would: everything is gone at once.
  void kill(End& end) {
    end.closed = true;
    end.held.clear();
    if (!end.link->over()) end.link->fail(std::make_exception_ptr(ClosedError("killed")));
    if (!std::exchange(end.forgotten, true)) end.link->forget();
    end.link->abort();
    end.link.reset();
  }

  /// Memory that is held stays as it was sent.
  void check_held() {
    for (const End& end : ends_) {
      for (const Held& held : end.held) {
        const Bytes expected = content(held.message, held.frame, held.bytes.size);
        ASSERT_EQ(std::memcmp(held.bytes.data, expected.data(), expected.size()), 0);
      }
    }
  }

  void finish() {
    const auto turns = [&] {
      for (int i = 0; i < 1000; ++i) {
        hub_.run_copies();
        for (End& end : ends_) {
          if (end.link) turn(end);
        }
      }
    };
    const bool both = !ends_[0].closed && !ends_[1].closed;
    for (int i = 0; i < 200 && both; ++i) {
      hub_.run_copies();
      for (const std::size_t which : {0, 1}) {
        turn(ends_[which]);
        receive(ends_[which], ends_[1 - which]);
        check_held();
        ends_[which].held.clear();
      }
    }
    if (both) {
      EXPECT_EQ(ends_[0].received, ends_[1].sent);
      EXPECT_EQ(ends_[1].received, ends_[0].sent);
    }
    for (End& end : ends_) {
      if (end.link) close(end);
    }
    turns();
    check_held();
    for (End& end : ends_) end.held.clear();
    turns();
    for (End& end : ends_) {
      EXPECT_EQ(*end.unsent, 0) << "each send has ended";
      if (!end.link) continue;
      EXPECT_TRUE(end.link->over());
      EXPECT_EQ(end.link->stats().regions_with_peer, 0u);
      end.link.reset();
    }
    EXPECT_EQ(hub_.pool->stats().lent_bytes, 0u);
    EXPECT_EQ(hub_.pool->stats().idle_bytes, hub_.pool->stats().bytes) << "all memory is free again";
  }

  std::mt19937_64 random_;
  PeerHub hub_;
  std::array<End, 2> ends_;
};

class PeerLinks : public testing::NoLeftovers {};

TEST_F(PeerLinks, AnyOrderKeepsMessagesAndMemoryRight) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    World(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace crossdock::peers
