// How the server's thread divides its time between connections and newcomers. Counts messages, not time: where the
// machine is slow, fewer messages fit into a turn, so a slow machine passes more easily.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/session/server.h"
#include "session/turn_budget.h"
#include "support/batches.h"
#include "transport/registry.h"

namespace crossdock::session {
namespace {

using testing::FunctionStream;
using testing::number_batch;
using transport::Connection;
using transport::Incoming;

constexpr std::uint64_t kWant = 1;
constexpr std::uint64_t kFree = 2;

/// What all connections of a test have taken: the order of their turns.
struct Record {
  std::atomic<std::uint64_t> taken{0};
  std::mutex mutex;
  std::vector<int> order;  // who took each message
};

/// A server's connection to a client that always has one more free_data message of zeros, each of which takes the
/// server some time, and bytes of a body that waits for room.
class BusyConnection final : public Connection {
 public:
  BusyConnection(int number, Record& record, std::chrono::microseconds per_message, std::uint64_t pushed_per_message)
      : number_(number),
        record_(record),
        per_message_(per_message),
        pushed_per_message_(pushed_per_message),
        bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    agreement_.want_data = kWant;
    agreement_.free_data = kFree;
    agreement_.counted_leases = true;
  }

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan, ByteSpan) override { return true; }
  bool send_tagged(std::uint64_t, ByteSpan, ByteSpan) override { return true; }
  std::uint64_t max_message() const noexcept override { return 1 << 20; }
  bool send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) override { return true; }
  std::uint64_t max_body() const noexcept override { return 0; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }
  std::optional<Incoming> receive() override {
    const auto until = std::chrono::steady_clock::now() + per_message_;
    while (std::chrono::steady_clock::now() < until) {
    }
    pushed_ += pushed_per_message_;
    record_.taken.fetch_add(1);
    const std::lock_guard lock(record_.mutex);
    record_.order.push_back(number_);
    return Incoming{true, kFree, as_bytes(zeros_)};
  }
  std::uint64_t pushed() const noexcept override { return pushed_; }
  void receive_into(std::shared_ptr<transport::BodyMemory>) override {}
  bool prepare_sleep() override { return false; }
  void wake() override {}
  int descriptor() const noexcept override { return bell_.get(); }

 private:
  const int number_;
  Record& record_;
  const std::chrono::microseconds per_message_;
  const std::uint64_t pushed_per_message_;
  std::uint64_t pushed_ = 0;
  const std::string zeros_ = std::string(64, '\0');
  const UniqueFd bell_;
  transport::Agreement agreement_;
};

/// A server's connection to a client that has asked for a stream and takes what comes. It counts the server's turns.
class QuietConnection final : public Connection {
 public:
  struct Counts {
    std::atomic<std::uint64_t> turns{0};
    std::atomic<std::uint64_t> sent{0};
  };
  QuietConnection(std::string name, std::shared_ptr<Counts> counts)
      : name_(std::move(name)), counts_(std::move(counts)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    agreement_.want_data = kWant;
    agreement_.free_data = kFree;
    agreement_.error_messages = true;
  }

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan, ByteSpan) override {
    counts_->sent.fetch_add(1);
    return true;
  }
  bool send_tagged(std::uint64_t, ByteSpan, ByteSpan) override { return true; }
  std::uint64_t max_message() const noexcept override { return 1 << 20; }
  bool send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) override { return true; }
  std::uint64_t max_body() const noexcept override { return 1 << 20; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }
  std::optional<Incoming> receive() override {
    if (!std::exchange(asked_, true)) return Incoming{true, kWant, as_bytes(name_)};
    counts_->turns.fetch_add(1);
    return std::nullopt;
  }
  void receive_into(std::shared_ptr<transport::BodyMemory>) override {}
  bool readable() const override { return !asked_; }
  bool prepare_sleep() override { return asked_; }
  void wake() override {}
  int descriptor() const noexcept override { return bell_.get(); }

 private:
  const std::string name_;
  const std::shared_ptr<Counts> counts_;
  const UniqueFd bell_;
  transport::Agreement agreement_;
  bool asked_ = false;
};

/// Connections that wait to be accepted.
struct ListenQueue {
  explicit ListenQueue(const Record& all) : record(all) {}

  const Record& record;
  UniqueFd event_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::deque<std::unique_ptr<Connection>> waiting;
  std::atomic<int> accepted{0};
  // Messages that the server had taken when the last connection came and when it was accepted. The server's thread
  // notes the latter: this thread may see it much later.
  std::uint64_t arrived_at = 0;
  std::atomic<std::uint64_t> accepted_at{0};

  void arrive(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(connection));
    }
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(event_fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    arrived_at = record.taken;
  }
  void await(int number) const {
    while (accepted < number) std::this_thread::yield();
  }
};

class QueueListener final : public transport::Listener {
 public:
  explicit QueueListener(std::shared_ptr<ListenQueue> queue) : queue_(std::move(queue)) {}
  std::string uri() const override { return "busy:"; }
  int descriptor() const noexcept override { return queue_->event_fd.get(); }
  std::unique_ptr<Connection> accept() override {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->waiting.empty()) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = ::read(queue_->event_fd.get(), &rings, sizeof rings);
      return nullptr;
    }
    auto connection = std::move(queue_->waiting.front());
    queue_->waiting.pop_front();
    queue_->accepted_at = queue_->record.taken.load();
    ++queue_->accepted;
    return connection;
  }
  std::size_t handshakes() const noexcept override { return 0; }
  void reject_all(bool) override {}

 private:
  const std::shared_ptr<ListenQueue> queue_;
};

class BusyTransport final : public transport::Transport {
 public:
  explicit BusyTransport(std::shared_ptr<ListenQueue> queue) : queue_(std::move(queue)) {}
  std::string_view scheme() const noexcept override { return "busy"; }
  transport::Ways ways() const noexcept override { return transport::Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string&) const override {}
  std::unique_ptr<transport::Listener> listen(const std::string&, std::uint64_t, std::uint64_t,
                                              LogCallback) const override {
    return std::make_unique<QueueListener>(queue_);
  }
  std::unique_ptr<Connection> connect(const std::string&, const transport::ConnectOptions&, int,
                                      const transport::InterruptHook&) const override {
    throw std::logic_error("nobody connects to it");
  }

 private:
  const std::shared_ptr<ListenQueue> queue_;
};

class Turns : public ::testing::Test {
 protected:
  /// A server with `n` connections that always have work.
  void serve(int n, std::chrono::microseconds per_message, std::uint64_t pushed_per_message = 0) {
    serve();
    per_message_ = per_message;
    pushed_per_message_ = pushed_per_message;
    for (int i = 0; i < n; ++i) join();
    queue_->await(n);
  }
  void serve() {
    auto registry = std::make_shared<transport::TransportRegistry>();
    registry->add(std::make_shared<BusyTransport>(queue_));
    ServerOptions options;
    options.uris = {"busy:"};
    options.transports = registry;
    server_.emplace(options);
  }
  void join() { queue_->arrive(std::make_unique<BusyConnection>(next_++, record_, per_message_, pushed_per_message_)); }
  void await_messages(std::uint64_t n) const {
    for (const std::uint64_t end = record_.taken + n; record_.taken < end;) std::this_thread::yield();
  }
  /// In messages.
  std::size_t longest_turn() const {
    std::size_t longest = 0;
    for (auto at = record_.order.begin(); at != record_.order.end();) {
      const auto end = std::find_if(at, record_.order.end(), [&](int who) { return who != *at; });
      // The first of them was alone for a while.
      if (at != record_.order.begin()) longest = std::max(longest, static_cast<std::size_t>(end - at));
      at = end;
    }
    return longest;
  }

  Record record_;
  std::shared_ptr<ListenQueue> queue_ = std::make_shared<ListenQueue>(record_);
  std::chrono::microseconds per_message_{0};
  std::uint64_t pushed_per_message_ = 0;
  int next_ = 0;
  std::optional<Server> server_;
};

TEST_F(Turns, ANewcomerIsTakenInWhileOthersAlwaysHaveWork) {
  serve(8, std::chrono::microseconds(10));
  for (int round = 0; round < 5; ++round) {
    await_messages(1000);
    join();
    queue_->await(9 + round);
    // A turn and a look around are some 50 messages.
    EXPECT_LT(queue_->accepted_at, queue_->arrived_at + 1000) << "messages that others sent while a newcomer waited";
  }
}

TEST_F(Turns, AConnectionThatAlwaysHasWorkGetsBoundedTurns) {
  serve(2, std::chrono::microseconds(100));
  await_messages(2000);
  server_->close();
  EXPECT_LE(longest_turn(), 16U) << "messages of 100 us that one connection sent in a turn";
}

TEST_F(Turns, WhatAConnectionPushesCountsInWhicheverCall) {
  serve(2, std::chrono::microseconds(0), 256 << 10);
  await_messages(2000);
  server_->close();
  EXPECT_LE(longest_turn(), 2 * TurnBudget::kMaxWork * 4 / (256 << 10)) << "messages in a turn, of 256 KiB each";
}

// What one source has wakes its own connection, not all those whose sources have nothing.
TEST_F(Turns, ASourceWakesItsOwnConnectionOnly) {
  constexpr int kIdle = 8;
  constexpr std::uint64_t kBatches = 1000;
  serve();
  auto feed = std::make_shared<QuietConnection::Counts>();
  auto idle = std::make_shared<QuietConnection::Counts>();
  std::promise<void> gate;
  std::atomic<int> waiting = 0;
  server_->publish("idle", Source::factory([opened = gate.get_future().share(), &waiting] {
                     return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                             [opened, &waiting]() -> std::optional<array::RecordBatch> {
                                                               ++waiting;
                                                               opened.wait();
                                                               return std::nullopt;
                                                             });
                   }));
  // The next batch comes once the one before has gone: an event each.
  std::promise<void> done;
  server_->publish("feed", Source::factory([feed, &waiting, &done] {
                     auto n = std::make_shared<std::uint64_t>(0);
                     return std::make_unique<FunctionStream>(
                         number_batch(0, 0).schema, [n, feed, &waiting, &done]() -> std::optional<array::RecordBatch> {
                           while (waiting < kIdle || feed->sent < *n) std::this_thread::yield();
                           if (++*n <= kBatches) return number_batch(0, 1);
                           done.set_value();
                           return std::nullopt;
                         });
                   }));
  for (int i = 0; i < kIdle; ++i) queue_->arrive(std::make_unique<QuietConnection>("idle", idle));
  while (waiting < kIdle) std::this_thread::yield();
  const std::uint64_t before = idle->turns;
  queue_->arrive(std::make_unique<QuietConnection>("feed", feed));
  done.get_future().wait();
  EXPECT_GE(feed->turns, kBatches / 2);
  // When they fall asleep, and are awake, is the machine's; but it isn't each time that the feed has something.
  EXPECT_LT(idle->turns - before, kBatches) << "turns of " << kIdle << " connections that had nothing to do";
  gate.set_value();
}

// --- the budget of a turn ---

std::int64_t fake_now = 0;  // ns
std::int64_t fake_clock() noexcept { return fake_now; }

TEST(TurnBudgetTest, EndsByWork) {
  TurnBudget budget(fake_now, fake_clock);
  std::uint64_t spent = 0;
  for (; budget.left(); spent += 500) budget.spend(500);
  EXPECT_GE(spent, TurnBudget::kMaxWork);
  EXPECT_LE(spent, TurnBudget::kMaxWork + TurnBudget::kStride);
}

TEST(TurnBudgetTest, EndsByTimeWhereWorkTakesLongerThanEstimated) {
  TurnBudget budget(fake_now, fake_clock);
  const std::int64_t start = fake_now;
  while (budget.left()) {
    budget.spend(500);
    fake_now += 50'000;
  }
  EXPECT_GE(fake_now - start, TurnBudget::kMaxTime);
  EXPECT_LE(fake_now - start, TurnBudget::kMaxTime + std::int64_t{2} * 4 * 50'000);
  EXPECT_LT(budget.spent(), TurnBudget::kMaxWork);
}

TEST(TurnBudgetTest, TheTimeBeforeTheFirstReadingCounts) {
  TurnBudget budget(fake_now, fake_clock);
  fake_now += TurnBudget::kMaxTime;
  budget.spend(TurnBudget::kStride);
  EXPECT_FALSE(budget.left());
  EXPECT_EQ(budget.now(), fake_now);
}

TEST(TurnBudgetTest, OneLargePieceOfWorkEndsIt) {
  TurnBudget budget(fake_now, fake_clock);
  EXPECT_TRUE(budget.left());
  budget.spend(TurnBudget::kMaxWork);
  EXPECT_FALSE(budget.left());
}

}  // namespace
}  // namespace crossdock::session
