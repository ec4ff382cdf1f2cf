// Readers in coroutines, in loops, and without waiting; and std::stop_token.

#include "crossdock/session/await.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/array/column.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/process.h"

namespace crossdock::session {
namespace {

using namespace std::chrono_literals;
using testing::FunctionStream;
using testing::number_batch;
using testing::number_stream;

/// An event loop of one thread.
class Loop {
 public:
  WhenReadable when_readable() {
    return [this](int descriptor, std::function<void()> ready) {
      if (fails) throw SystemError("the loop takes no more");
      const int number = next_number_++;
      waiting_.emplace(number, Entry{descriptor, std::move(ready)});
      return [this, number] { waiting_.erase(number); };
    };
  }
  bool idle() const { return waiting_.empty(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Waits until a descriptor is readable, and calls what waits for it.
  void run_once() {
    std::vector<pollfd> descriptors;
    std::vector<int> numbers;
    for (const auto& [number, entry] : waiting_) {
      descriptors.push_back({entry.descriptor, POLLIN, 0});
      numbers.push_back(number);
    }
    ASSERT_GT(::poll(descriptors.data(), descriptors.size(), 20'000), 0);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (descriptors[i].revents == 0) continue;
      auto entry = waiting_.extract(numbers[i]);
      if (!entry) continue;
      entry.mapped().ready();
      if (calls_twice) entry.mapped().ready();
    }
  }
  void run() {
    while (!idle()) run_once();
  }
  bool fails = false;
  bool calls_twice = false;

 private:
  struct Entry {
    int descriptor;
    std::function<void()> ready;
  };
  std::map<int, Entry> waiting_;
  int next_number_ = 0;
};

/// A coroutine that begins at once. Destroying it destroys what it has done so far.
struct Task {
  struct promise_type {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
    std::exception_ptr error;
  };
  explicit Task(std::coroutine_handle<promise_type> made) : coroutine(made) {}
  Task(Task&& other) noexcept : coroutine(std::exchange(other.coroutine, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (coroutine) coroutine.destroy();
  }
  bool done() const { return coroutine.done(); }
  void check() const {
    if (coroutine.promise().error) std::rethrow_exception(coroutine.promise().error);
  }
  std::coroutine_handle<promise_type> coroutine;
};

Task add_up(Reader& reader, Loop& loop, std::int64_t* rows) {
  while (const auto batch = co_await next(reader, loop.when_readable())) *rows += batch->num_rows;
}

/// A live stream that gives a batch for each call of allow(), then ends.
class BatchGate {
 public:
  explicit BatchGate(int batches) : left_(batches) {}
  void allow() {
    ++allowed_;
    allowed_.notify_all();
  }
  std::unique_ptr<array::BatchStream> stream() {
    return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [this]() -> std::optional<array::RecordBatch> {
      allowed_.wait(taken_);
      ++taken_;
      if (left_-- == 0) return std::nullopt;
      return number_batch(0, 10);
    });
  }

 private:
  std::atomic<int> allowed_ = 0;
  int taken_ = 0;
  int left_;
};

ServerOptions at(const char* uri) {
  ServerOptions options;
  options.uris = {uri};
  return options;
}

/// A server with a live stream, "live", and a client of it.
struct Live {
  Live(const char* uri, int batches) : gate(batches), server(at(uri)), client(server.uri()) {
    server.publish("live", Source::live(gate.stream()));
  }
  BatchGate gate;
  Server server;
  Client client;
};

class AwaitTest : public testing::NoLeftovers, public ::testing::WithParamInterface<const char*> {};

TEST_P(AwaitTest, CoroutinesReadTablesToTheirEnd) {
  Server server(at(GetParam()));
  server.publish("numbers", Source::table(number_stream(30, 100)));
  Client client(server.uri());
  Loop loop;
  std::int64_t rows[2] = {0, 0};
  const auto a = client.get("numbers");
  const auto b = client.get("numbers");
  const Task first = add_up(*a, loop, &rows[0]);
  const Task second = add_up(*b, loop, &rows[1]);
  loop.run();
  ASSERT_TRUE(first.done() && second.done());
  first.check();
  second.check();
  EXPECT_EQ(rows[0], 3000);
  EXPECT_EQ(rows[1], 3000);
}

TEST_P(AwaitTest, ACoroutineGoesOnWhenABatchArrives) {
  Live live(GetParam(), 2);
  const auto reader = live.client.get("live");
  EXPECT_EQ(reader->try_next().state, Polled::State::kNotYet);
  EXPECT_FALSE(reader->try_next().arrived());
  Loop loop;
  std::int64_t rows = 0;
  const Task task = add_up(*reader, loop, &rows);
  EXPECT_FALSE(task.done());
  for (const std::int64_t expected : {10, 20}) {
    live.gate.allow();
    while (rows < expected) loop.run_once();
    EXPECT_FALSE(task.done());
  }
  live.gate.allow();
  loop.run();
  ASSERT_TRUE(task.done());
  task.check();
  const Polled found = reader->try_next();
  EXPECT_EQ(found.state, Polled::State::kEnd);
  EXPECT_TRUE(found.arrived());
  EXPECT_FALSE(found.batch || found.error);
}

TEST_P(AwaitTest, ACoroutineMayBeDestroyedWhileItWaits) {
  Live live(GetParam(), 1);
  const auto reader = live.client.get("live");
  Loop loop;
  std::int64_t rows = 0;
  {
    const Task task = add_up(*reader, loop, &rows);
    EXPECT_FALSE(loop.idle());
  }
  EXPECT_TRUE(loop.idle()) << "the watch has ended";
  live.gate.allow();
  EXPECT_EQ(reader->next()->num_rows, 10) << "the reader goes on";
  live.gate.allow();
  EXPECT_FALSE(reader->next());
}

TEST_P(AwaitTest, ALoopMayCallForACoroutineThatIsGone) {
  Live live(GetParam(), 1);
  const auto reader = live.client.get("live");
  std::function<void()> ready;
  int ended = 0;
  const WhenReadable loop = [&](int /*descriptor*/, std::function<void()> call) {
    ready = std::move(call);
    return [&] { ++ended; };
  };
  const auto read = [&]() -> Task { static_cast<void>(co_await next(*reader, loop)); };
  { const Task task = read(); }
  EXPECT_EQ(ended, 1);
  ready();
  live.gate.allow();
  EXPECT_EQ(reader->next()->num_rows, 10);
  live.gate.allow();
  EXPECT_FALSE(reader->next());
}

TEST_P(AwaitTest, ErrorsOfTheStreamAndOfTheLoopReachTheCoroutine) {
  Live live(GetParam(), 1);
  const auto reader = live.client.get("live");
  Loop loop;
  std::int64_t rows = 0;
  loop.fails = true;
  const Task refused = add_up(*reader, loop, &rows);
  ASSERT_TRUE(refused.done());
  EXPECT_THROW(refused.check(), SystemError);
  loop.fails = false;
  const Task task = add_up(*reader, loop, &rows);
  auto closing = std::async(std::launch::async, [&] { live.server.close(); });  // waits for the source
  loop.run();
  live.gate.allow();
  closing.get();
  ASSERT_TRUE(task.done());
  EXPECT_THROW(task.check(), Error);
  EXPECT_EQ(rows, 0);
}

TEST_P(AwaitTest, ALoopMayRefuseWhenNothingCame) {
  Live live(GetParam(), 1);
  std::function<void()> ready;
  const WhenReadable once = [&](int /*descriptor*/, std::function<void()> call) {
    if (ready) throw SystemError("the loop takes no more");
    ready = std::move(call);
    return [] {};
  };
  const auto read = [&]() -> Task {
    const auto reader = live.client.get("live");  // which is gone once the coroutine gets the exception
    static_cast<void>(co_await next(*reader, once));
  };
  const Task task = read();
  ASSERT_TRUE(ready);
  ready();
  ASSERT_TRUE(task.done());
  EXPECT_THROW(task.check(), SystemError);
  live.gate.allow();
}

TEST_P(AwaitTest, ACoroutineMayBeDestroyedInTheChildOfAFork) {
  Live live(GetParam(), 1);
  const auto reader = live.client.get("live");
  Loop loop;
  std::int64_t rows = 0;
  std::optional<Task> task(add_up(*reader, loop, &rows));
  testing::ChildProcess child([&](const testing::ChildProcess::Line&) {
    task.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  live.gate.allow();
  live.gate.allow();
  loop.run();
  EXPECT_EQ(rows, 10);
}

Task add_up_two(Reader& reader, Loop& loop, std::int64_t* rows) {
  NextBatch first = next(reader, loop.when_readable());  // lives on after the await
  *rows += (co_await first)->num_rows;
  *rows += (co_await next(reader, loop.when_readable()))->num_rows;
}

TEST_P(AwaitTest, ALoopThatCallsTwiceDoesNoHarm) {
  Live live(GetParam(), 2);
  const auto reader = live.client.get("live");
  Loop loop;
  loop.calls_twice = true;
  std::int64_t rows = 0;
  const Task task = add_up_two(*reader, loop, &rows);
  for (const std::int64_t expected : {10, 20}) {
    EXPECT_EQ(loop.waiting(), 1U) << "the await that is over waits for nothing";
    live.gate.allow();
    while (rows < expected) loop.run_once();
    EXPECT_EQ(rows, expected);
  }
  ASSERT_TRUE(task.done());
  task.check();
  live.gate.allow();
  EXPECT_FALSE(reader->next());
}

TEST_P(AwaitTest, TryNextReturnsErrors) {
  Server server(at(GetParam()));
  server.publish("numbers", Source::table(number_stream(3, 10)));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  reader->close();
  const Polled found = reader->try_next();
  EXPECT_EQ(found.state, Polled::State::kFailed);
  ASSERT_TRUE(found.error);
  EXPECT_THROW(static_cast<void>(found.arrived()), ClosedError);
}

TEST_P(AwaitTest, ReadersAreForRangeLoops) {
  Server server(at(GetParam()));
  server.publish("numbers", Source::table(number_stream(3, 10)));
  server.publish("one", Source::table(number_batch(5, 2)));
  EXPECT_THROW(server.publish("none", Source::table(std::vector<array::RecordBatch>())), InvalidArgumentError);
  Client client(server.uri());
  std::int64_t sum = 0;
  for (const array::RecordBatch& batch : client.get("numbers")) {
    for (const auto number : batch.column<std::int64_t>("number")) sum += *number;
  }
  EXPECT_EQ(sum, 29 * 30 / 2);
  for (const array::RecordBatch& batch : client.get("one", {.columns = {{"text"}}})) {
    EXPECT_EQ(batch.column<std::string_view>(0)[1], "6");
  }
}

TEST_P(AwaitTest, AStopTokenInterrupts) {
  Live live(GetParam(), 0);
  std::stop_source stop;
  const auto reader = live.client.get("live", {}, stop.get_token());
  auto reading = std::async(std::launch::async, [&] { return reader->next().has_value(); });
  EXPECT_EQ(reading.wait_for(1ms), std::future_status::timeout);
  stop.request_stop();
  EXPECT_THROW(reading.get(), InterruptedError);
  EXPECT_THROW(live.client.get("live", {}, stop.get_token()), Error);
  live.gate.allow();
  reader->set_interrupt_hook(std::stop_token());
  EXPECT_FALSE(reader->next()) << "after InterruptedError the stream goes on";
}

TEST(InterruptHook, IsAFunctionOrATokenOrNothing) {
  EXPECT_FALSE(transport::InterruptHook());
  EXPECT_FALSE(transport::InterruptHook()());
  EXPECT_FALSE(std::function<bool()>(transport::InterruptHook())()) << "this function isn't empty";
  EXPECT_FALSE(transport::InterruptHook(nullptr));
  EXPECT_FALSE(transport::InterruptHook(std::stop_token())) << "nothing can stop it";
  EXPECT_FALSE(transport::InterruptHook(std::function<bool()>()));
  bool stop = false;
  const transport::InterruptHook hook = [&] { return stop; };
  ASSERT_TRUE(hook);
  EXPECT_FALSE(hook());
  stop = true;
  EXPECT_TRUE(hook());
  static_assert(!std::is_constructible_v<transport::InterruptHook, int>);
  static_assert(!std::is_constructible_v<transport::InterruptHook, void (*)()>);
}

INSTANTIATE_TEST_SUITE_P(Over, AwaitTest, ::testing::Values("shm:", "tcp:"),
                         [](const auto& given) { return std::string(given.param).substr(0, 3); });

}  // namespace
}  // namespace crossdock::session
