#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "suite.h"

namespace crossdock::transport::conformance {
namespace {

TEST_P(TransportConformance, BothEndsKnowWhatWasAgreed) {
  Wishes wishes;
  wishes.agreement.want_data = 0xFFFFFFFFFFFFFFFF;
  wishes.agreement.free_data = 7;
  wishes.agreement.error_messages = true;
  connect(wishes);
  for (const Connection* end : {server_.get(), client_.get()}) {
    EXPECT_EQ(end->agreement().want_data, 0xFFFFFFFFFFFFFFFF);
    EXPECT_EQ(end->agreement().free_data, 7u);
    EXPECT_TRUE(end->agreement().error_messages);
    EXPECT_EQ(end->agreement().same_user, GetParam().same_user);
    EXPECT_EQ(end->max_message(), wishes.max_message);
    if (GetParam().real_credentials) {
      EXPECT_EQ(end->agreement().peer_pid, static_cast<std::uint32_t>(getpid()));
      EXPECT_EQ(end->agreement().peer_uid, static_cast<std::uint32_t>(getuid()));
    }
  }
}

TEST_P(TransportConformance, NothingIsThereBeforeAnythingIsSent) {
  connect();
  EXPECT_FALSE(server_->receive());
  EXPECT_FALSE(client_->receive());
  EXPECT_EQ(server_->in_flight(), 0u);
  EXPECT_EQ(client_->in_flight(), 0u);
}

TEST_P(TransportConformance, MessagesOfEverySizeComeWhole) {
  Wishes wishes;
  connect(wishes);
  std::uint64_t seed = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9}, std::size_t{63},
        std::size_t{64}, std::size_t{600}, std::size_t{4096}, std::size_t{20'001},
        static_cast<std::size_t>(wishes.max_message) - 1, static_cast<std::size_t>(wishes.max_message)}) {
    for (const bool tagged : {false, true}) {
      for (Connection* from : {server_.get(), client_.get()}) {
        Connection& to = from == server_.get() ? *client_ : *server_;
        const Message message{tagged, tagged ? ~std::uint64_t{size} : 0, pattern(size, ++seed)};
        const ByteSpan bytes(message.bytes);
        const ByteSpan head = bytes.first(size / 3);
        ASSERT_TRUE(tagged ? from->send_tagged(message.tag, head, bytes.subspan(size / 3))
                           : from->send(head, bytes.subspan(size / 3)));
        if (GetParam().takes_largest_at_once) {
          EXPECT_TRUE(from->flush());
        }
        // A transport that places a large message piece by piece goes on as the peer drains.
        std::optional<Incoming> in;
        for (int round = 0; !in && round < 1000; ++round) {
          from->flush();
          let_arrive(*from, to);
          in = to.receive();
        }
        ASSERT_TRUE(in) << "size " << size;
        EXPECT_EQ(in->tagged, tagged);
        if (tagged) {
          EXPECT_EQ(in->tag, message.tag);
        }
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in->bytes.data()) % 8, 0u);
        EXPECT_TRUE(std::equal(in->bytes.begin(), in->bytes.end(), message.bytes.begin(), message.bytes.end()))
            << "size " << size;
        EXPECT_FALSE(to.receive());
      }
    }
  }
}

TEST_P(TransportConformance, AHeldMessageComesBeforeTheNext) {
  connect();
  const Message held{false, 0, pattern(100, 1)};
  const Message tagged{true, 7, pattern(300, 2)};
  server_->cork();
  ASSERT_TRUE(server_->send(held.bytes, {}));
  ASSERT_TRUE(server_->send_tagged(tagged.tag, tagged.bytes, {}));
  EXPECT_EQ(take(*server_, *client_), held);
  EXPECT_EQ(take(*server_, *client_), tagged);
  EXPECT_FALSE(client_->receive());

  // By value, too; and that one is held back no more.
  server_->cork();
  ASSERT_TRUE(server_->send(held.bytes, {}));
  auto body = std::make_shared<const std::vector<std::byte>>(pattern(5000, 3));
  const std::vector<ByteSpan> parts = {*body};
  ASSERT_TRUE(server_->send_body(9, parts, body));
  EXPECT_EQ(take(*server_, *client_), held);
  EXPECT_EQ(take(*server_, *client_), (Message{true, 9, *body}));
  ASSERT_TRUE(server_->send(held.bytes, {}));
  EXPECT_EQ(take(*server_, *client_), held);
}

TEST_P(TransportConformance, WhatFindsNoRoomLetsAHeldMessageGo) {
  Wishes wishes;
  wishes.small_queue = true;
  bool happened = false;
  // The queue is full after a held message, or before one: which, depends on their sizes.
  for (const auto& [held_size, tagged_size] : {std::pair{15'000, 1000}, std::pair{1000, 15'000}}) {
    connect(wishes);
    const Message held{false, 0, pattern(static_cast<std::size_t>(held_size), 1)};
    const Message tagged{true, 7, pattern(static_cast<std::size_t>(tagged_size), 2)};
    std::size_t sent = 0;
    for (bool room = true; room;) {
      server_->cork();
      if (!server_->send(held.bytes, {})) break;
      room = server_->send_tagged(tagged.tag, tagged.bytes, {});
      happened |= !room;
      sent += room ? 2 : 1;
      ASSERT_LT(sent, 1'000'000u) << "the queue never fills up";
    }
    for (std::size_t i = 0; i < sent; ++i) {
      ASSERT_EQ(take(*server_, *client_), i % 2 == 0 ? held : tagged) << i;
    }
    EXPECT_FALSE(client_->receive());
  }
  EXPECT_TRUE(happened);
}

TEST_P(TransportConformance, AMessageOverTheLimitLeavesNothingHeld) {
  connect();
  server_->cork();
  EXPECT_THROW(server_->send(pattern((64 << 10) + 1, 1), {}), InvalidArgumentError);
  const Message next{false, 0, pattern(100, 2)};
  ASSERT_TRUE(server_->send(next.bytes, {}));
  EXPECT_EQ(take(*client_), next);

  // What was held already comes with whatever goes next.
  server_->cork();
  ASSERT_TRUE(server_->send(next.bytes, {}));
  EXPECT_THROW(server_->send_tagged(7, pattern((64 << 10) + 1, 1), {}), InvalidArgumentError);
  const Message last{false, 0, pattern(50, 3)};
  ASSERT_TRUE(server_->send(last.bytes, {}));
  EXPECT_EQ(take(*client_), next);
  EXPECT_EQ(take(*client_), last);
}

TEST_P(TransportConformance, BodiesOfEverySizeComeWholeAndStayTheReceivers) {
  Wishes wishes;
  connect(wishes);
  std::uint64_t seed = 0;
  std::vector<std::pair<Incoming, std::vector<std::byte>>> kept;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{4096},
                                 static_cast<std::size_t>(wishes.max_message) * 5 + 3, (std::size_t{3} << 20) + 1}) {
    for (Connection* from : {server_.get(), client_.get()}) {
      Connection& to = from == server_.get() ? *client_ : *server_;
      auto bytes = std::make_shared<const std::vector<std::byte>>(pattern(size, ++seed));
      std::vector<ByteSpan> parts;
      for (std::size_t at = 0, step = 0; at < size; at += step) {
        step = std::min(size - at, size / 3 + 1);
        parts.push_back(ByteSpan(*bytes).subspan(at, step));
        parts.push_back({});
      }
      const std::uint64_t tag = ~std::uint64_t{size};
      const std::weak_ptr<const std::vector<std::byte>> watched = bytes;
      std::vector<std::byte> expected = *bytes;
      ASSERT_TRUE(from->send_body(tag, parts, std::move(bytes)));
      EXPECT_EQ(from->in_flight(), 1u);
      std::optional<Incoming> in;
      for (int round = 0; !in && round < 100'000; ++round) {
        from->flush();
        let_arrive(*from, to);
        in = to.receive();
      }
      ASSERT_TRUE(in) << "size " << size;
      EXPECT_TRUE(from->flush());
      EXPECT_TRUE(watched.expired()) << "the sender is done with it, size " << size;
      EXPECT_TRUE(in->tagged);
      EXPECT_EQ(in->tag, tag);
      EXPECT_TRUE(in->owner);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in->bytes.data()) % 64, 0u);
      kept.emplace_back(*std::move(in), std::move(expected));
      EXPECT_FALSE(to.receive());
      to.acknowledge_all();
    }
  }
  // Later messages and the end of the connection leave what came alone.
  server_.reset();
  client_.reset();
  for (const auto& [in, expected] : kept) {
    EXPECT_TRUE(std::equal(in.bytes.begin(), in.bytes.end(), expected.begin(), expected.end())) << expected.size();
  }
}

TEST_P(TransportConformance, BodiesAndMessagesKeepTheirOrder) {
  connect();
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(500'000, 1));
  const std::vector<std::byte> message = pattern(100, 2);
  int sent = 0;
  int taken = 0;
  while (taken < 40) {
    if (sent < 40) {
      const bool is_body = sent % 3 == 0;
      const std::vector<ByteSpan> parts = {ByteSpan(*body)};
      sent += is_body ? server_->send_body(static_cast<std::uint64_t>(sent), parts, body)
                      : server_->send_tagged(static_cast<std::uint64_t>(sent), message, {});
    }
    server_->flush();
    if (const auto in = client_->receive()) {
      EXPECT_EQ(in->tag, static_cast<std::uint64_t>(taken));
      EXPECT_EQ(in->bytes.size(), taken % 3 == 0 ? body->size() : message.size());
      EXPECT_EQ(static_cast<bool>(in->owner), GetParam().tagged_have_owners || taken % 3 == 0);
      ++taken;
    }
  }
}

TEST_P(TransportConformance, HeadOrTailMayBeEmpty) {
  connect();
  const std::vector<std::byte> bytes = pattern(21, 5);
  ASSERT_TRUE(server_->send(bytes, {}));
  ASSERT_TRUE(server_->send({}, bytes));
  ASSERT_TRUE(server_->send_tagged(0, bytes, {}));
  EXPECT_EQ(take(*client_), (Message{false, 0, bytes}));
  EXPECT_EQ(take(*client_), (Message{false, 0, bytes}));
  EXPECT_EQ(take(*client_), (Message{true, 0, bytes}));
}

TEST_P(TransportConformance, ASentMessageIsNoLongerTheSenders) {
  connect();
  std::vector<std::byte> bytes = pattern(100, 5);
  const std::vector<std::byte> original = bytes;
  ASSERT_TRUE(server_->send(bytes, {}));
  std::fill(bytes.begin(), bytes.end(), std::byte{0xAA});
  const auto message = take(*client_);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, original);
}

TEST_P(TransportConformance, TaggedAndUntaggedKeepTheirOrder) {
  connect();
  std::vector<Message> sent;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const bool tagged = i % 3 != 0;
    sent.push_back({tagged, tagged ? i << 40 : 0, pattern(i, i)});
    put(*client_, sent.back());
  }
  for (const Message& message : sent) EXPECT_EQ(take(*server_), message);
}

TEST_P(TransportConformance, TheDirectionsDoNotMix) {
  connect();
  const Message there{true, 1, pattern(10, 1)};
  const Message back{true, 2, pattern(10, 2)};
  put(*server_, there);
  put(*client_, back);
  EXPECT_EQ(take(*client_), there);
  EXPECT_EQ(take(*server_), back);
}

TEST_P(TransportConformance, AMessageOverTheLimitIsRefusedAndNothingIsSent) {
  Wishes wishes;
  connect(wishes);
  const std::vector<std::byte> bytes(wishes.max_message + 1);
  EXPECT_THROW(server_->send(bytes, {}), InvalidArgumentError);
  EXPECT_THROW(server_->send(ByteSpan(bytes).first(1), ByteSpan(bytes).subspan(1)), InvalidArgumentError);
  EXPECT_THROW(server_->send_tagged(1, {}, bytes), InvalidArgumentError);
  EXPECT_EQ(server_->in_flight(), 0u);
  EXPECT_FALSE(client_->receive());
  ASSERT_TRUE(server_->send(ByteSpan(bytes).first(3), {}));  // and the connection goes on
  EXPECT_TRUE(take(*client_));
}

TEST_P(TransportConformance, InFlightCountsWhatThePeerHasNotTaken) {
  connect();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(server_->in_flight(), i);
    ASSERT_TRUE(i % 2 == 0 ? server_->send(pattern(8, i), {}) : server_->send_tagged(i, pattern(8, i), {}));
  }
  EXPECT_EQ(server_->in_flight(), 3u);
  EXPECT_EQ(client_->in_flight(), 0u);
  EXPECT_TRUE(server_->below_window(4));
  EXPECT_FALSE(server_->below_window(3));
  for (std::size_t left = 3; left > 0; --left) {
    if (!GetParam().network) {
      EXPECT_EQ(server_->in_flight(), left);
    }
    EXPECT_GE(server_->in_flight(), left);
    let_arrive(*server_, *client_);
    ASSERT_TRUE(client_->receive());
  }
  EXPECT_FALSE(client_->receive());
  client_->acknowledge_all();
  let_learn(*server_);
  EXPECT_EQ(server_->in_flight(), 0u);
  EXPECT_TRUE(server_->below_window(1));
}

TEST_P(TransportConformance, AFullQueueSaysNoAndSendsNothing) {
  Wishes wishes;
  wishes.small_queue = true;
  connect(wishes);
  std::vector<Message> sent;
  for (std::uint64_t i = 0;; ++i) {
    ASSERT_LT(i, 100'000u) << "the queue is never full";
    const Message message{true, i, pattern(5000, i)};
    if (!server_->send_tagged(message.tag, message.bytes, {})) break;
    sent.push_back(message);
  }
  ASSERT_FALSE(sent.empty());
  const Message another{false, 0, pattern(5000, 1)};
  const bool accepted = server_->send(another.bytes, {});
  EXPECT_TRUE(!accepted || GetParam().network) << "only a network takes something on meanwhile";
  if (accepted) sent.push_back(another);
  EXPECT_EQ(server_->in_flight(), sent.size());
  for (const Message& message : sent) EXPECT_EQ(take(*server_, *client_), message);
  EXPECT_FALSE(client_->receive()) << "a refused message came";
  ASSERT_TRUE(server_->send(pattern(5000, 2), {}));  // there is room again
  EXPECT_EQ(take(*server_, *client_), (Message{false, 0, pattern(5000, 2)}));
}

// The owner of the receiving half may be another thread that has all it wants: then nobody else makes progress.
TEST_P(TransportConformance, ASendThatFoundNoRoomNeedsNothingButToBeTriedAgain) {
  Wishes wishes;
  wishes.small_queue = true;
  const auto body = std::make_shared<const std::vector<std::byte>>(pattern(1'000'000, 1));
  const ByteSpan large(*body);
  const ByteSpan small = large.first(5000);
  const std::vector<std::pair<const char*, std::function<bool()>>> ways_to_send = {
      {"send", [&] { return server_->send(small, {}); }},
      {"send_tagged", [&] { return server_->send_tagged(1, small, {}); }},
      {"send_body",
       [&] {
         return server_->send_body(2, {&small, 1}, body);
       }},
  };
  for (const bool after_large : {false, true}) {  // which the peer takes before what is sent after it
    for (const auto& [name, send] : ways_to_send) {
      SCOPED_TRACE(std::string(name) + (after_large ? " after a large body" : ""));
      connect(wishes);
      std::size_t on_way = 0;
      const auto drain = [&] {
        while (client_->receive()) --on_way;
        rung(*client_, 1);
      };
      if (after_large) {
        ASSERT_TRUE(server_->send_body(3, {&large, 1}, body));
        ++on_way;
      }
      while (send()) ASSERT_LT(++on_way, 100'000u);
      bool accepted = false;
      for (int waited_ms = 0; !accepted && waited_ms < kPatienceMs; ++waited_ms) {
        drain();
        accepted = send();
      }
      ASSERT_TRUE(accepted);
      ++on_way;
      for (int waited_ms = 0; on_way > 0 && waited_ms < kPatienceMs; ++waited_ms) {
        server_->flush();
        drain();
      }
      EXPECT_EQ(on_way, 0u);
      client_.reset();  // first, so that the server's end doesn't wait for it
    }
  }
}

}  // namespace
}  // namespace crossdock::transport::conformance
