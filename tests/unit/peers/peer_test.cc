#include "crossdock/peers/peer.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/eventually.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "support/process.h"

namespace crossdock::peers {
namespace {

using namespace std::chrono_literals;

using testing::ChildProcess;
using testing::eventually;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

Bytes numbered(std::size_t size, int seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed)) % 251);
  return bytes;
}

OutgoingFrame frame_of(const Bytes& bytes) { return {bytes.data(), bytes.size(), nullptr}; }

bool same(const Frame& frame, ByteSpan bytes) {
  return frame.size == bytes.size() && (frame.size == 0 || std::memcmp(frame.data, bytes.data(), frame.size) == 0);
}

void close_and_wait(Peer& peer) {
  std::promise<void> closed;
  peer.close([&](const std::exception_ptr&) { closed.set_value(); });
  closed.get_future().wait();
}

/// Two ends in this process, each with a hub of its own.
class Pair {
 public:
  explicit Pair(const std::string& uri, const PeerOptions& options = {}) {
    listener = there.listen({uri}, options);
    b = here.connect(listener->uri(), options);
    a = listener->accept(10s);
  }
  std::shared_ptr<session::Runtime> runtime = std::make_shared<session::Runtime>();
  std::shared_ptr<device::Pool> pool = runtime->make_pool();
  Hub here{{.runtime = runtime, .pool = pool}};
  Hub there{{.runtime = runtime, .pool = pool}};
  std::unique_ptr<PeerListener> listener;
  std::unique_ptr<Peer> a;
  std::unique_ptr<Peer> b;
};

class PeerTest : public testing::NoLeftovers {};
class PeerOver : public testing::NoLeftovers, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, PeerOver, ::testing::Values("shm:", "tcp:"),
                         [](const auto& test) { return std::string(test.param).substr(0, 3); });

TEST_P(PeerOver, MessagesGoBothWaysInOrder) {
  Pair pair(GetParam());
  for (int i = 0; i < 200; ++i) {
    const Bytes small = numbered(100, i);
    const Bytes large = numbered(100'000, i + 1);
    const Bytes none;
    const auto meta = numbered(static_cast<std::size_t>(i), i);
    Peer& from = i % 2 == 0 ? *pair.a : *pair.b;
    Peer& to = i % 2 == 0 ? *pair.b : *pair.a;
    from.send(std::array{frame_of(small), frame_of(none), frame_of(large)}, meta);
    const Message message = to.recv(10s);
    ASSERT_EQ(message.frames().size(), 3u);
    EXPECT_EQ(Bytes(message.meta().begin(), message.meta().end()), meta);
    EXPECT_TRUE(same(message.frames()[0], small));
    EXPECT_EQ(message.frames()[1].size, 0u);
    EXPECT_TRUE(same(message.frames()[2], large));
  }
  for (int i = 0; i < 50; ++i) pair.a->send({}, as_bytes(std::to_string(i)));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(as_text(pair.b->recv(10s).meta()), std::to_string(i));
}

TEST_P(PeerOver, FramesOfEverySizeArrive) {
  Pair pair(GetParam());
  for (const std::size_t size : {1ul, 63ul, 64ul, 65ul, 4095ul, 65'535ul, 65'536ul, 65'537ul, 300'000ul, 3'000'001ul}) {
    const Bytes bytes = numbered(size);
    pair.a->send(std::array{frame_of(bytes), frame_of(bytes)}, {});
    const Message message = pair.b->recv(10s);
    EXPECT_TRUE(same(message.frames()[0], bytes)) << size;
    EXPECT_TRUE(same(message.frames()[1], bytes)) << size;
  }
}

TEST_P(PeerOver, TenThousandFramesInOneMessage) {
  Pair pair(GetParam());
  std::vector<Bytes> all;
  std::vector<OutgoingFrame> frames;
  for (int i = 0; i < 10'000; ++i) all.push_back(numbered(static_cast<std::size_t>(i), i));
  for (const Bytes& bytes : all) frames.push_back(frame_of(bytes));
  pair.a->send(frames, {});
  const Message message = pair.b->recv(30s);
  ASSERT_EQ(message.frames().size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(message.frames()[i], all[i])) << i;
}

TEST_F(PeerTest, AFrameInAPoolGoesByAddressWithoutACopy) {
  Pair pair("shm:");
  const auto memory = pair.pool->allocate(kMebibyte);
  const Bytes bytes = numbered(kMebibyte);
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  pair.a->send(std::array{OutgoingFrame{memory.get(), kMebibyte, memory}}, {});
  std::memset(memory.get(), 0, kMebibyte);  // the receiver sees what was sent
  {
    const Message message = pair.b->recv(10s);
    EXPECT_TRUE(message.frames()[0].mapped);
    EXPECT_TRUE(same(message.frames()[0], bytes));
    EXPECT_EQ(pair.a->stats().bytes_copied, 0u);
    EXPECT_EQ(pair.a->stats().frames_by_address, 1u);
    EXPECT_EQ(pair.a->stats().regions_with_peer, 1u);
    EXPECT_EQ(pair.b->stats().regions_of_peer, 1u);
    EXPECT_GT(pair.pool->stats().lent_bytes, 0u);
  }
  EXPECT_TRUE(eventually([&] { return pair.pool->stats().lent_bytes == 0 && pair.a->stats().regions_with_peer == 0; }));
  EXPECT_EQ(pair.b->stats().regions_of_peer, 0u);
}

TEST_F(PeerTest, OtherMemoryIsCopiedOnceIntoThePoolWhichIsUsedAgain) {
  Pair pair("shm:");
  const Bytes bytes = numbered(2 * kMebibyte);
  for (int i = 0; i < 5; ++i) {
    pair.a->send(std::array{frame_of(bytes)}, {});
    {
      const Message message = pair.b->recv(10s);
      EXPECT_TRUE(message.frames()[0].mapped);
      EXPECT_TRUE(same(message.frames()[0], bytes));
      EXPECT_EQ(pair.a->stats().bytes_copied, (static_cast<std::uint64_t>(i) + 1) * bytes.size());
    }
    EXPECT_TRUE(eventually([&] { return pair.pool->stats().idle_bytes == pair.pool->stats().bytes; }));
  }
  EXPECT_EQ(pair.pool->stats().made, 1u);
}

TEST_F(PeerTest, SmallerFramesShareABlock) {
  Pair pair("shm:");
  const Bytes bytes = numbered(100'000);
  std::vector<OutgoingFrame> frames(100, frame_of(bytes));
  pair.a->send(frames, {});
  const Message message = pair.b->recv(10s);
  for (const Frame& frame : message.frames()) EXPECT_TRUE(frame.mapped && same(frame, bytes));
  EXPECT_EQ(pair.b->stats().regions_of_peer, 1u);
}

TEST_F(PeerTest, WritesAreSeenByNobodyElse) {
  Pair pair("shm:");
  const auto memory = pair.pool->allocate(kMebibyte);
  std::memset(memory.get(), 1, kMebibyte);
  pair.a->send(std::array{OutgoingFrame{memory.get(), kMebibyte, memory}}, {});
  pair.a->send(std::array{OutgoingFrame{memory.get(), kMebibyte, memory}}, {});
  Message first = pair.b->recv(10s);
  const Message second = pair.b->recv(10s);
  first.make_writable();
  const Frame& frame = first.frames()[0];
  ASSERT_NE(frame.writable, nullptr);
  frame.writable[5] = std::byte{9};
  memory.get()[6] = std::byte{8};
  EXPECT_EQ(frame.data[5], std::byte{9});
  EXPECT_EQ(frame.data[6], std::byte{1});
  EXPECT_EQ(second.frames()[0].data[5], std::byte{1});
  EXPECT_EQ(second.frames()[0].data[6], std::byte{1});
  EXPECT_EQ(memory.get()[5], std::byte{1});
}

TEST_F(PeerTest, ReceivedFramesGoOnWithoutACopyUnlessWrittenTo) {
  Pair first("shm:");
  Pair second("shm:");
  const Bytes bytes = numbered(kMebibyte);
  for (const bool writable : {false, true}) {
    first.a->send(std::array{frame_of(bytes)}, {});
    auto message = std::make_optional(first.b->recv(10s));
    if (writable) message->make_writable();
    const Frame frame = message->frames()[0];
    message.reset();
    const std::uint64_t copied = second.a->stats().bytes_copied;
    second.a->send(std::array{OutgoingFrame{frame.data, frame.size, frame.owner}}, {});
    {
      const Message passed = second.b->recv(10s);
      EXPECT_TRUE(same(passed.frames()[0], bytes));
      EXPECT_EQ(second.a->stats().bytes_copied, copied) << "passed on as it is";
    }
    if (!writable) continue;
    const_cast<std::byte*>(frame.data)[7] = std::byte{99};
    second.a->send(std::array{OutgoingFrame{frame.data, frame.size, frame.owner}}, {});
    const Message changed = second.b->recv(10s);
    EXPECT_EQ(changed.frames()[0].data[7], std::byte{99});
    EXPECT_EQ(second.a->stats().bytes_copied, copied + kMebibyte);
  }
}

TEST_F(PeerTest, FramesPassedOnWithoutEndKeepABoundedNumberOfOwners) {
  Pair first("shm:");
  Pair second("shm:");
  const Bytes bytes = numbered(kMebibyte);
  first.a->send(std::array{frame_of(bytes)}, {});
  const Message message = first.b->recv(10s);
  const Frame& frame = message.frames()[0];
  auto alive = std::make_shared<std::atomic<int>>(0);
  std::optional<Message> held;  // the other end always has a frame of the region
  for (int i = 0; i < 6000; ++i) {
    ++*alive;
    const std::shared_ptr<const void> owner(frame.data, [keep = frame.owner, alive](const void*) { --*alive; });
    second.a->send(std::array{OutgoingFrame{frame.data, 64 << 10, owner}}, {});
    Message passed = second.b->recv(10s);
    ASSERT_TRUE(same(passed.frames()[0], ByteSpan(bytes).first(64 << 10)));
    held = std::move(passed);
    ASSERT_LE(*alive, 4200);
  }
  EXPECT_GT(second.a->stats().frames_by_address, 4000U);
  EXPECT_GT(second.a->stats().bytes_by_value, 0U) << "frames beyond these";
  held.reset();
  EXPECT_TRUE(eventually([&] { return second.a->stats().regions_with_peer == 0; }));
}

TEST_F(PeerTest, AReceiverThatDoesNotReceiveStopsTheSender) {
  for (const char* uri : {"shm:", "tcp:"}) {
    PeerOptions options;
    options.window_messages = 4;
    Pair pair(uri, options);
    const Bytes bytes = numbered(1000);
    int over = 0;
    std::atomic<int> done{0};
    for (int i = 0; i < 100; ++i) {
      over += pair.a->send(std::array{frame_of(bytes)}, {}, [&](const std::exception_ptr&) { ++done; }) ? 1 : 0;
    }
    EXPECT_LT(over, 40) << "a sender that waits stops here";
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(same(pair.b->recv(10s).frames()[0], bytes));
    EXPECT_TRUE(eventually([&] { return over + done == 100; }));
  }
}

TEST_P(PeerOver, AMessageLargerThanTheWindowGoesAlone) {
  PeerOptions options;
  options.window_bytes = 1000;
  options.share_from = kMebibyte * 100;  // by value
  Pair pair(GetParam(), options);
  const Bytes bytes = numbered(5 * kMebibyte);
  for (int i = 0; i < 3; ++i) {
    std::promise<void> sent;
    pair.a->send(std::array{frame_of(bytes)}, {}, [&](const std::exception_ptr&) { sent.set_value(); });
    const Message message = pair.b->recv(10s);
    EXPECT_TRUE(same(message.frames()[0], bytes));
    EXPECT_FALSE(message.frames()[0].mapped);
    sent.get_future().wait();
  }
}

TEST_F(PeerTest, AMessageThatIsTooLargeByValueIsRefusedAndLeavesItsMemoryFree) {
  PeerOptions options;
  options.max_regions = 1;
  options.max_message = kMebibyte;
  Pair pair("shm:", options);
  const Bytes bytes = numbered(2 * kMebibyte);
  for (int i = 0; i < 3; ++i) {
    std::promise<std::exception_ptr> over;
    const std::array frames = {frame_of(bytes), frame_of(bytes)};  // each in a region of its own
    ASSERT_FALSE(pair.a->send(frames, {}, [&](const std::exception_ptr& failure) { over.set_value(failure); }));
    EXPECT_THROW(std::rethrow_exception(over.get_future().get()), InvalidArgumentError);
  }
  EXPECT_TRUE(eventually([&] { return pair.a->stats().regions_with_peer == 0; }));
  EXPECT_TRUE(eventually([&] { return pair.pool->stats().idle_bytes == pair.pool->stats().bytes; }));
  pair.a->send(std::array{frame_of(bytes)}, {});
  EXPECT_TRUE(same(pair.b->recv(10s).frames()[0], bytes)) << "the connection goes on";
}

TEST_P(PeerOver, WhatIsUnderWayWhenThePeerClosesIsOver) {
  for (int i = 0; i < 100; ++i) {
    PeerOptions options;
    options.share_from = kMebibyte * 100;
    Pair pair(GetParam(), options);
    const Bytes bytes = numbered(3 * kMebibyte);
    std::promise<void> over;
    pair.a->send(std::array{frame_of(bytes)}, {}, [&](const std::exception_ptr&) { over.set_value(); });
    if (i % 2 == 0) pair.b->recv(10s);
    std::promise<void> closed;
    pair.b->close([&](const std::exception_ptr&) { closed.set_value(); });
    EXPECT_EQ(over.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    closed.get_future().wait();
  }
}

TEST_F(PeerTest, ClosingMakesRoomForAPeerThatSends) {
  PeerOptions options;
  options.window_messages = 4;
  Pair pair("shm:", options);
  const Bytes bytes = numbered(1000);
  std::atomic<int> done{0};
  for (int i = 0; i < 60; ++i) {  // more than the window and what waits ahead of it
    if (pair.a->send(std::array{frame_of(bytes)}, {}, [&](const std::exception_ptr&) { ++done; })) ++done;
    pair.b->send(std::array{frame_of(bytes)}, {}, [](const std::exception_ptr&) {});
  }
  std::promise<void> closed;
  pair.b->close([&](const std::exception_ptr&) { closed.set_value(); });
  EXPECT_TRUE(eventually([&] { return done == 60; })) << "they are sent, or the connection has ended";
  while (true) {
    try {
      pair.a->recv(10s);
    } catch (const ConnectionError&) {
      break;
    }
  }
  EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(PeerTest, EachCloseWaitsForWhatWasSent) {
  PeerOptions options;
  options.window_messages = 4;
  Pair pair("shm:", options);
  const Bytes bytes = numbered(1000);
  for (int i = 0; i < 15; ++i) pair.a->send(std::array{frame_of(bytes)}, {}, [](const std::exception_ptr&) {});
  std::atomic<int> closed{0};
  for (int i = 0; i < 2; ++i) pair.a->close([&](const std::exception_ptr&) { ++closed; });
  EXPECT_EQ(closed, 0);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(same(pair.b->recv(10s).frames()[0], bytes));
  EXPECT_TRUE(eventually([&] { return closed == 2; }));
  pair.a->close([&](const std::exception_ptr&) { ++closed; });
  EXPECT_EQ(closed, 3);
}

TEST_F(PeerTest, AHubThatEndsEndsItsListeners) {
  auto hub = std::make_unique<Hub>();
  const auto listener = hub->listen({"shm:"});
  std::thread waits([&] { EXPECT_THROW(listener->accept(20s), ClosedError); });
  hub.reset();
  waits.join();
  EXPECT_THROW(listener->try_accept().get(), ClosedError);
}

TEST_P(PeerOver, PollingFindsMessagesAndTheEndWithoutExceptions) {
  Pair pair(GetParam());
  static_assert(noexcept(pair.b->try_recv()));
  const PollResult<std::optional<Message>> nothing = pair.b->try_recv();
  EXPECT_FALSE(nothing.value);
  EXPECT_FALSE(nothing.error);
  const Bytes bytes = numbered(100);
  pair.a->send(std::array{frame_of(bytes)}, {});
  close_and_wait(*pair.a);
  std::vector<Message> messages;
  std::exception_ptr end;
  while (!end) {
    std::promise<void> changed;
    pair.b->when_readable([&] { changed.set_value(); });
    changed.get_future().get();
    PollResult<std::optional<Message>> found = pair.b->try_recv();
    EXPECT_NE(found.value.has_value(), found.error != nullptr);
    if (found.value) messages.push_back(*std::move(found.value));
    end = found.error;
  }
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(same(messages.front().frames()[0], bytes));
  EXPECT_THROW(std::rethrow_exception(end), ConnectionError);
  EXPECT_THROW(pair.b->try_recv().get(), ConnectionError);
}

TEST_P(PeerOver, CloseDeliversWhatWasSentThenTheEnd) {
  Pair pair(GetParam());
  const Bytes bytes = numbered(300'000);
  for (int i = 0; i < 10; ++i) pair.a->send(std::array{frame_of(bytes)}, {});
  close_and_wait(*pair.a);
  EXPECT_THROW(pair.a->send({}, {}), ClosedError);
  EXPECT_THROW(pair.a->try_recv().get(), ClosedError);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(same(pair.b->recv(10s).frames()[0], bytes));
  EXPECT_THROW(pair.b->recv(10s), ConnectionError);
  EXPECT_THROW(pair.b->send({}, {}), ConnectionError);
}

TEST_P(PeerOver, FramesOutliveEverything) {
  const Bytes bytes = numbered(kMebibyte);
  std::optional<Message> message;
  {
    Pair pair(GetParam());
    pair.a->send(std::array{frame_of(bytes)}, {});
    message.emplace(pair.b->recv(10s));
    pair.b.reset();
  }
  EXPECT_TRUE(same(message->frames()[0], bytes));
  message->make_writable();
  message->frames()[0].writable[0] = std::byte{77};
}

TEST_F(PeerTest, MemoryThatAClosedPeerHoldsIsNotUsedAgain) {
  Pair pair("shm:");
  const Bytes bytes = numbered(kMebibyte);
  pair.a->send(std::array{frame_of(bytes)}, {});
  auto message = std::make_optional(pair.b->recv(10s));
  close_and_wait(*pair.b);
  pair.b.reset();
  EXPECT_THROW(pair.a->recv(10s), ConnectionError);
  close_and_wait(*pair.a);
  pair.a.reset();
  EXPECT_GT(pair.pool->stats().lent_bytes, 0u);
  const auto other = pair.pool->allocate(kMebibyte);
  std::memset(other.get(), 0, kMebibyte);
  EXPECT_TRUE(same(message->frames()[0], bytes));
  message.reset();
  EXPECT_TRUE(eventually([&] { return pair.pool->stats().lent_bytes == 0; }));
}

TEST_F(PeerTest, AHubThatIsDestroyedLeavesItsMemoryToThoseWhoHoldIt) {
  auto pool = session::Runtime::default_runtime()->make_pool();
  Hub there;
  const auto listener = there.listen({"shm:"});
  auto here = std::make_unique<Hub>(HubOptions{.pool = pool});
  auto b = here->connect(listener->uri());
  const auto a = listener->accept(10s);
  const Bytes bytes = numbered(kMebibyte);
  b->send(std::array{frame_of(bytes)}, {});
  const Message message = a->recv(10s);
  here.reset();
  EXPECT_THROW(b->send({}, {}), ClosedError);
  EXPECT_THROW(b->recv(), ClosedError);
  b.reset();
  EXPECT_THROW(a->recv(10s), ConnectionError);
  const auto other = pool->allocate(kMebibyte);
  std::memset(other.get(), 0, kMebibyte);
  EXPECT_TRUE(same(message.frames()[0], bytes));
}

TEST_P(PeerOver, AbortEndsWhatWaits) {
  Pair pair(GetParam());
  auto waiting = std::async(std::launch::async, [&] { return pair.b->recv(20s); });
  pair.a->abort();
  EXPECT_THROW(waiting.get(), ConnectionError);
  EXPECT_THROW(pair.a->recv(), ClosedError);
}

TEST_P(PeerOver, WaitsEndAtTheirLimitAndWhenInterrupted) {
  Pair pair(GetParam());
  EXPECT_THROW(pair.a->recv(20ms), TimeoutError);
  EXPECT_THROW(pair.a->recv({}, [] { return true; }), InterruptedError);
  EXPECT_THROW(pair.listener->accept(20ms), TimeoutError);
  EXPECT_THROW(pair.listener->accept({}, [] { return true; }), InterruptedError);
  pair.b->send({}, as_bytes("after"));
  EXPECT_EQ(as_text(pair.a->recv(10s).meta()), "after");
}

// A process that connects, sends a frame, says so, and waits to be told to go on.
int send_one_frame(const ChildProcess::Line& line) {
  Hub hub;
  const auto peer = hub.connect(line.hear());
  const Bytes bytes = numbered(kMebibyte);
  peer->send(std::array{frame_of(bytes)}, {});
  line.say("sent");
  line.hear();
  return 0;
}

TEST_F(PeerTest, AKilledSenderLeavesItsFramesValidAndEndsTheWait) {
  ChildProcess sender(send_one_frame);
  Hub hub;
  const auto listener = hub.listen({"shm:"});
  sender.line().say(listener->uri());
  const auto peer = listener->accept(20s);
  sender.line().hear();
  const Message message = peer->recv(20s);
  sender.kill();
  EXPECT_THROW(peer->recv(1s), ConnectionError) << "not a TimeoutError: within a second";
  EXPECT_TRUE(same(message.frames()[0], numbered(kMebibyte)));
}

// A process that connects, receives a frame, says so, and holds it.
int hold_one_frame(const ChildProcess::Line& line) {
  Hub hub;
  const auto peer = hub.connect(line.hear());
  const Message message = peer->recv(20s);
  line.say("holds");
  line.hear();
  return 0;
}

TEST_F(PeerTest, WhatAKilledReceiverHeldIsFreedAndNotUsedAgain) {
  ChildProcess receiver(hold_one_frame);
  const auto pool = session::Runtime::default_runtime()->make_pool();
  Hub hub({.pool = pool});
  const auto listener = hub.listen({"shm:"});
  receiver.line().say(listener->uri());
  const auto peer = listener->accept(20s);
  const Bytes bytes = numbered(kMebibyte);
  peer->send(std::array{frame_of(bytes)}, {});
  receiver.line().hear();
  EXPECT_EQ(pool->stats().idle_bytes, 0u);
  receiver.kill();
  EXPECT_TRUE(eventually([&] { return pool->stats().bytes == 0u; })) << "it may have passed the frame on";
}

TEST_F(PeerTest, AFullPoolSendsByValue) {
  auto runtime = std::make_shared<session::Runtime>();
  Hub here({.runtime = runtime, .pool = runtime->make_pool({.limit = 4096})});
  Hub there;
  const auto listener = there.listen({"shm:"});
  const auto b = here.connect(listener->uri());
  const auto a = listener->accept(10s);
  const Bytes bytes = numbered(3 * kMebibyte);
  std::promise<void> sent;
  b->send(std::array{frame_of(bytes)}, {}, [&](const std::exception_ptr& failure) {
    EXPECT_EQ(failure, nullptr);
    sent.set_value();
  });
  const Message message = a->recv(10s);
  sent.get_future().wait();
  EXPECT_FALSE(message.frames()[0].mapped);
  EXPECT_TRUE(same(message.frames()[0], bytes));
  EXPECT_EQ(b->stats().bytes_by_value, bytes.size());
}

TEST_F(PeerTest, FramesBeyondTheReceiversRegionsGoByValue) {
  PeerOptions options;
  options.max_regions = 3;
  Pair pair("shm:", options);
  const Bytes bytes = numbered(kMebibyte);
  std::vector<Message> held;
  for (int i = 0; i < 10; ++i) {
    pair.a->send(std::array{frame_of(bytes)}, {});
    held.push_back(pair.b->recv(10s));
    EXPECT_EQ(held.back().frames()[0].mapped, i < 3);
    EXPECT_TRUE(same(held.back().frames()[0], bytes));
  }
}

TEST_F(PeerTest, PeersAndTablesDontMeet) {
  Hub hub;
  const auto listener = hub.listen({"shm:", "tcp:"});
  session::ServerOptions options;
  options.uris = {"shm:", "tcp:"};
  session::Server server(options);
  for (int i : {0, 1}) {
    try {
      session::Client client(listener->uris()[static_cast<std::size_t>(i)]);
      client.list();
      FAIL();
    } catch (const HandshakeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("listens for peers"));
    }
    try {
      hub.connect(server.uris()[static_cast<std::size_t>(i)]);
      FAIL();
    } catch (const HandshakeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("serves tables"));
    }
  }
  EXPECT_THROW(hub.listen({"ucx:"}), UnsupportedError);
  EXPECT_THROW(hub.listen({}), InvalidArgumentError);
  EXPECT_THROW(hub.listen({"shm:x?want_data=1"}), UriError);
  EXPECT_THROW(hub.connect("shm:nobody-is-here"), ConnectionError);
}

TEST_P(PeerOver, ManyConnectAtOnce) {
  Hub hub;
  const auto listener = hub.listen({GetParam()});
  std::vector<std::unique_ptr<Peer>> clients(60);
  std::vector<std::thread> threads;
  Hub other;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < clients.size(); i += 4) clients[i] = other.connect(listener->uri());
    });
  }
  std::vector<std::unique_ptr<Peer>> accepted;
  for (std::size_t i = 0; i < clients.size(); ++i) accepted.push_back(listener->accept(20s));
  for (auto& thread : threads) thread.join();
  for (const auto& client : clients) client->send({}, as_bytes("hello"));
  for (const auto& peer : accepted) EXPECT_EQ(as_text(peer->recv(20s).meta()), "hello");
}

TEST_P(PeerOver, SendersOnManyThreads) {
  Pair pair(GetParam());
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Bytes bytes = numbered(t % 2 == 0 ? 1000 : 100'000, t);
      for (int i = 0; i < kEach; ++i) {
        const std::array<std::byte, 2> meta = {static_cast<std::byte>(t), static_cast<std::byte>(i % 256)};
        pair.a->send(std::array{frame_of(bytes)}, meta);
      }
    });
  }
  std::array<int, kThreads> next{};
  for (int n = 0; n < kThreads * kEach; ++n) {
    const Message message = pair.b->recv(20s);
    const auto t = std::to_integer<std::size_t>(message.meta()[0]);
    EXPECT_EQ(std::to_integer<int>(message.meta()[1]), next[t]++ % 256) << "in the order of its thread";
    EXPECT_EQ(message.frames()[0].data[0], numbered(1, static_cast<int>(t))[0]);
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(PeerTest, AForkedChildCanUseNothing) {
  Pair pair("shm:");
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = false;
    try {
      pair.a->send({}, {});
    } catch (const ForkError&) {
      right = pair.a->closed();
    }
    pair.a.reset();
    pair.listener.reset();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  pair.a->send({}, as_bytes("still here"));
  EXPECT_EQ(as_text(pair.b->recv(10s).meta()), "still here");
}

}  // namespace
}  // namespace crossdock::peers
