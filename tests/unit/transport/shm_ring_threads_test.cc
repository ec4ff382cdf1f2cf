// Two threads on one mapping, asleep and awake: what ThreadSanitizer can see, and where a lost wake-up would hang.

#include <sys/eventfd.h>

#include <atomic>
#include <random>
#include <thread>

#include "shm_support.h"

namespace crossdock::transport::shm_test {
namespace {

using shm::Barrier;
using shm::RingHeader;
using shm::RingReader;
using shm::RingWriter;

/// A doorbell between threads: an event counter of the other end.
class EventOwner : public shm::RingOwner {
 public:
  explicit EventOwner(int peer_event) : peer_event_(peer_event) {}
  void ring() noexcept override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(peer_event_, &one, sizeof one);
  }
  void retired(std::uint64_t) override {}

 private:
  int peer_event_;
};

/// One end with its sleep, as the connection does it.
struct End {
  End(const shm::RingView& view, Barrier with, int own_event, int peer_event)
      : own(view.own),
        barrier(with),
        event(own_event),
        owner(peer_event),
        writer(view, with, owner, "peer"),
        reader(view, with, owner, limits(1 << 20), "peer") {}

  /// Sleeps until rung. A lost wake-up shows as a time-out.
  void sleep() {
    writer.set_asleep(true);
    own->state.store(++epoch, std::memory_order_seq_cst);
    if (writer.wants_room()) writer.ask_for_room();
    barrier.heavy();
    if (!reader.has_data() && !writer.room_came()) {
      pollfd ask{event, POLLIN, 0};
      ASSERT_EQ(::poll(&ask, 1, 20'000), 1) << "a wake-up was lost";
      std::uint64_t count = 0;
      ASSERT_EQ(::read(event, &count, sizeof count), ssize_t{sizeof count});
      ++sleeps;
    }
    own->state.store(++epoch, std::memory_order_relaxed);
    writer.set_asleep(false);
  }

  RingHeader* own;
  Barrier barrier;
  int event;
  EventOwner owner;
  RingWriter writer;
  RingReader reader;
  std::uint64_t epoch = 0;
  unsigned sleeps = 0;
};

class ShmRingThreads : public ::testing::TestWithParam<bool> {
 protected:
  UniqueFd a_event{::eventfd(0, EFD_CLOEXEC)};
  UniqueFd b_event{::eventfd(0, EFD_CLOEXEC)};
  RingMemories memory{64 << 10};
  Barrier barrier{GetParam() && shm::register_for_barriers()};
  End a{memory.of_a(), barrier, a_event.get(), b_event.get()};
  End b{memory.of_b(), barrier, b_event.get(), a_event.get()};
};
INSTANTIATE_TEST_SUITE_P(Barriers, ShmRingThreads, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Expedited" : "Fences"; });

constexpr unsigned kRingMessages = 100'000;

/// Sizes that fill the ring now and then, and go in pieces now and then.
std::size_t size_of(unsigned i) { return i % 997 == 0 ? 50'000 : i % 1201; }

void stream(End& from) {
  const auto bytes = pattern(50'000);
  for (unsigned i = 0; i < kRingMessages; ++i) {
    while (!from.writer.send(shm::kTagged, i, ByteSpan(bytes).first(size_of(i)), {})) from.sleep();
    if (::testing::Test::HasFatalFailure()) return;
  }
  while (!from.writer.flush()) from.sleep();
}

void drain(End& to) {
  const auto bytes = pattern(50'000);
  for (unsigned i = 0; i < kRingMessages;) {
    if (const auto message = to.reader.receive()) {
      ASSERT_EQ(message->tag, i);
      ASSERT_EQ(message->bytes.size(), size_of(i));
      ASSERT_TRUE(message->bytes.empty() ||
                  std::memcmp(message->bytes.data(), bytes.data(), message->bytes.size()) == 0);
      ++i;
    } else {
      to.sleep();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(ShmRingThreads, OneWayWithoutALostWakeUp) {
  std::thread sender([this] { stream(a); });
  drain(b);
  sender.join();
  EXPECT_EQ(a.writer.in_flight(), 0U);
  RecordProperty("sender_sleeps", std::to_string(a.sleeps));
  RecordProperty("receiver_sleeps", std::to_string(b.sleeps));
}

TEST_P(ShmRingThreads, PingPongWithoutALostWakeUp) {
  constexpr unsigned kRounds = 20'000;
  std::thread echo([this] {
    for (unsigned i = 0; i < kRounds;) {
      if (const auto message = b.reader.receive()) {
        ASSERT_TRUE(b.writer.send(0, 0, message->bytes, {}));
        ++i;
      } else {
        b.sleep();
      }
    }
  });
  for (unsigned i = 0; i < kRounds; ++i) {
    const auto bytes = pattern(16, i);
    ASSERT_TRUE(a.writer.send(0, 0, bytes, {}));
    std::optional<Incoming> message;
    while (!(message = a.reader.receive())) a.sleep();
    ASSERT_EQ(copy_of(message->bytes), bytes);
  }
  echo.join();
}

TEST_P(ShmRingThreads, AWindowOfOneWithoutALostWakeUp) {
  constexpr unsigned kRounds = 20'000;
  std::thread sender([this] {
    for (unsigned i = 0; i < kRounds; ++i) {
      while (!a.writer.below_window(1)) a.sleep();
      ASSERT_TRUE(a.writer.send(0, 0, as_bytes("x"), {}));
    }
  });
  for (unsigned i = 0; i < kRounds;) {
    if (b.reader.receive()) {
      ++i;
    } else {
      b.sleep();
    }
  }
  sender.join();
}

TEST_P(ShmRingThreads, HalvesOnTwoThreads) {
  // End a sends on one thread and waits on another: the second has to wake for the first's room, and pushes on what it
  // kept back.
  std::atomic<bool> done{false};
  std::thread waiter([this, &done] {
    while (!done.load()) {
      a.writer.flush();
      if (a.reader.receive()) break;
      a.sleep();
      if (HasFatalFailure()) return;
    }
  });
  std::thread receiver([this] {
    drain(b);
    ASSERT_TRUE(b.writer.send(0, 0, as_bytes("done"), {}));
  });
  const auto bytes = pattern(50'000);
  for (unsigned i = 0; i < kRingMessages; ++i) {
    while (!a.writer.send(shm::kTagged, i, ByteSpan(bytes).first(size_of(i)), {})) std::this_thread::yield();
  }
  receiver.join();
  done.store(true);
  waiter.join();
  EXPECT_EQ(a.writer.in_flight(), 0U);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
