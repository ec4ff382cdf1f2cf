// The threads that read live sources: how they end, and how tasks end that none of them has begun with.
#include "session/source_pool.h"

#include <pthread.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "support/leftovers.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

class SourcePoolTest : public testing::NoLeftovers {};

/// Does its work in one step.
class OneStep final : public SourceTask {
 public:
  explicit OneStep(std::function<void()> work, std::shared_ptr<const void> made_of = nullptr)
      : work_(std::move(work)), made_of_(std::move(made_of)) {}
  Next step() noexcept override {
    work_();
    return Next::kDone;
  }
  std::shared_ptr<const void> unused() noexcept override { return std::move(made_of_); }

 private:
  std::function<void()> work_;
  std::shared_ptr<const void> made_of_;
};

/// What a thread keeps until it ends, and which then takes its time: a thread state of Python's, which needs the GIL.
struct EndOfThread {
  std::promise<void>* reached = nullptr;
  std::shared_future<void> go_on;
  EndOfThread() = default;
  EndOfThread(const EndOfThread&) = delete;
  EndOfThread& operator=(const EndOfThread&) = delete;
  ~EndOfThread() {
    if (reached == nullptr) return;
    reached->set_value();
    go_on.wait();
  }
};
thread_local EndOfThread end_of_thread;

/// A pool with a thread that has no work any more, and doesn't end before go_on().
class EndingThread {
 public:
  explicit EndingThread(SourcePool& pool, const std::shared_ptr<SourceLane>& lane) {
    pool.start(std::make_shared<OneStep>([this] {
                 end_of_thread.reached = &reached_;
                 end_of_thread.go_on = go_on_.get_future().share();
               }),
               lane);
  }
  bool wait() { return reached_.get_future().wait_for(kSoon) == std::future_status::ready; }
  void go_on() { go_on_.set_value(); }

 private:
  std::promise<void> reached_;
  std::promise<void> go_on_;
};

TEST_F(SourcePoolTest, AThreadThatIsEndingKeepsNobodyWaiting) {
  const auto lane = std::make_shared<SourceLane>();
  SourcePool pool({.threads = 2, .idle = std::chrono::milliseconds(1)});
  EndingThread ending(pool, lane);
  ASSERT_TRUE(ending.wait());
  std::promise<void> done;
  auto started =
      std::async(std::launch::async, [&] { pool.start(std::make_shared<OneStep>([&] { done.set_value(); }), lane); });
  EXPECT_EQ(started.wait_for(kSoon), std::future_status::ready) << "start() is the I/O thread's";
  EXPECT_EQ(done.get_future().wait_for(kSoon), std::future_status::ready);
  ending.go_on();
  started.get();
}

TEST_F(SourcePoolTest, WaitsForThreadsThatAreEnding) {
  const auto lane = std::make_shared<SourceLane>();
  SourcePool pool({.threads = 2, .idle = std::chrono::milliseconds(1)});
  EndingThread ending(pool, lane);
  ASSERT_TRUE(ending.wait());
  std::promise<void> done;
  pool.start(std::make_shared<OneStep>([&] { done.set_value(); }), lane);  // by a thread that joins the other
  ASSERT_EQ(done.get_future().wait_for(kSoon), std::future_status::ready);
  pool.close();
  auto waited = std::async(std::launch::async, [&] { return pool.wait({}); });
  EXPECT_EQ(waited.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  ending.go_on();
  EXPECT_TRUE(waited.get());
}

/// No thread can be started.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t attributes;
    EXPECT_EQ(pthread_getattr_default_np(&attributes), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{1} << 52), 0);  // more than there are addresses
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST_F(SourcePoolTest, ATaskThatGetsNoThreadIsRefusedAfterAThreadHasEnded) {
  const auto lane = std::make_shared<SourceLane>();
  SourcePool pool({.threads = 2, .idle = std::chrono::milliseconds(1)});
  EndingThread ending(pool, lane);
  ASSERT_TRUE(ending.wait());
  ending.go_on();
  std::promise<void> done;
  const auto task = std::make_shared<OneStep>([&] { done.set_value(); });
  {
    const NoThreads none;
    EXPECT_THROW(pool.start(task, lane), std::system_error);
  }
  pool.start(task, lane);
  EXPECT_EQ(done.get_future().wait_for(kSoon), std::future_status::ready);
}

TEST_F(SourcePoolTest, ATaskThatHasntBegunCanBeCanceled) {
  const auto lane = std::make_shared<SourceLane>();
  const auto other_lane = std::make_shared<SourceLane>();
  SourcePool pool({.threads = 1});
  std::promise<void> begun;
  std::promise<void> go_on;
  const auto blocks = std::make_shared<OneStep>([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  pool.start(blocks, lane);
  begun.get_future().wait();
  EXPECT_FALSE(pool.cancel(*blocks)) << "it is in its first step";

  std::promise<std::thread::id> dropped;
  std::shared_ptr<const void> source(&dropped, [&](const void*) { dropped.set_value(std::this_thread::get_id()); });
  const auto never = [] { ADD_FAILURE() << "it was canceled"; };
  const auto first = std::make_shared<OneStep>(never, source);
  const auto last = std::make_shared<OneStep>(never, std::exchange(source, nullptr));
  const auto alone = std::make_shared<OneStep>(never);
  int steps = 0;
  const auto between = std::make_shared<OneStep>([&] { ++steps; });
  const auto behind = std::make_shared<OneStep>([&] { ++steps; });
  pool.start(alone, other_lane);
  pool.start(first, lane);
  pool.start(between, lane);
  pool.start(last, lane);
  EXPECT_TRUE(pool.cancel(*first));
  EXPECT_TRUE(pool.cancel(*last));
  EXPECT_TRUE(pool.cancel(*alone));
  EXPECT_FALSE(pool.cancel(*alone)) << "it is over";
  EXPECT_EQ(first.use_count(), 1) << "the pool keeps it";
  pool.start(behind, lane);

  auto id = dropped.get_future();
  EXPECT_EQ(id.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  go_on.set_value();
  ASSERT_EQ(id.wait_for(kSoon), std::future_status::ready);
  EXPECT_NE(id.get(), std::this_thread::get_id()) << "a producer may wait for a GIL as it goes";
  pool.close();
  EXPECT_TRUE(pool.wait({}));
  EXPECT_EQ(steps, 2);
}

TEST_F(SourcePoolTest, ATaskThatCannotBeginIsFoundOutWhereThereIsALimit) {
  for (const int limit_ms : {1, 0}) {
    SourcePool pool({.threads = 1, .begin_limit = std::chrono::milliseconds(limit_ms)});
    std::promise<void> begun;
    std::promise<void> go_on;
    pool.start(std::make_shared<OneStep>([&] {
                 begun.set_value();
                 go_on.get_future().wait();
               }),
               std::make_shared<SourceLane>());
    begun.get_future().wait();
    std::promise<void> done;
    const auto waits = std::make_shared<OneStep>([&] { done.set_value(); });
    pool.start(waits, std::make_shared<SourceLane>());
    if (limit_ms == 0) {
      EXPECT_NO_THROW(pool.check_begins(*waits)) << "the task before it ends by itself";
    } else {
      const auto refused = [&] {
        try {
          pool.check_begins(*waits);
          return false;
        } catch (const ResourceError&) {
          return true;
        }
      };
      const auto deadline = std::chrono::steady_clock::now() + kSoon;
      while (!refused()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    go_on.set_value();
    EXPECT_EQ(done.get_future().wait_for(kSoon), std::future_status::ready);
  }
}

}  // namespace
}  // namespace crossdock::session
