#include "crossdock/offload/queue_manager.h"

#include <atomic>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "unit/offload/support.h"

namespace crossdock::offload {
namespace {

using device::Queue;

class QueueManagerTest : public OffloadTest {
 protected:
  QueueManager manager_{queues_};
};

TEST_F(QueueManagerTest, BeginsWithTheDefault) {
  EXPECT_EQ(manager_.current(), queues_->default_queue());
  manager_.set_default_queue("gpu:1");
  EXPECT_EQ(manager_.current(), queues_->queue("gpu:1"));
  EXPECT_EQ(manager_.default_queue(), queues_->queue("gpu:1"));
  manager_.set_default_queue(std::nullopt);
  EXPECT_EQ(manager_.current(), queues_->default_queue());
  EXPECT_THROW(manager_.set_default_queue("gpu:9"), NotFoundError);
}

TEST_F(QueueManagerTest, AScopeIsCurrentUntilItEnds) {
  const Queue zero = queues_->queue("gpu:0");
  const Queue one = queues_->queue("gpu:1");
  {
    const QueueManager::Scope outer(manager_, "gpu:1");
    EXPECT_EQ(outer.queue(), one);
    EXPECT_EQ(manager_.current(), one);
    {
      const QueueManager::Scope inner(manager_, zero);
      EXPECT_EQ(manager_.current(), zero);
    }
    EXPECT_EQ(manager_.current(), one);
    try {
      const QueueManager::Scope left(manager_, zero);
      throw TimeoutError("out of it");
    } catch (const TimeoutError&) {
    }
    EXPECT_EQ(manager_.current(), one);
  }
  EXPECT_EQ(manager_.current(), queues_->default_queue());
}

TEST_F(QueueManagerTest, PackagesDontSeeEachOther) {
  QueueManager other(queues_);
  other.set_default_queue("host");
  const QueueManager::Scope mine(manager_, "gpu:0");
  EXPECT_EQ(other.current(), queues_->queue("host"));
  const QueueManager::Scope its(other, "gpu:1");
  EXPECT_EQ(other.current(), queues_->queue("gpu:1"));
  EXPECT_EQ(manager_.current(), queues_->queue("gpu:0"));
}

TEST_F(QueueManagerTest, ThreadsBeginWithTheDefault) {
  const QueueManager::Scope mine(manager_, "gpu:1");
  manager_.set_default_queue("host");
  std::thread([&] { EXPECT_EQ(manager_.current(), queues_->queue("host")); }).join();
  EXPECT_EQ(manager_.current(), queues_->queue("gpu:1"));
}

TEST_F(QueueManagerTest, EveryThreadSeesItsOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i) {
    const Queue mine = queues_->queue(kZero, "queue " + std::to_string(i));
    threads.emplace_back([&, mine] {
      for (int n = 0; n < 2000; ++n) {
        const QueueManager::Scope scope(manager_, mine);
        if (manager_.current() != mine) ++wrong;
        const QueueManager::Scope inner(manager_, queues_->queue(kOne));
        if (manager_.current() == mine) ++wrong;
      }
      if (manager_.current() == mine) ++wrong;
    });
  }
  for (int n = 0; n < 500; ++n) manager_.set_default_queue(n % 2 == 0 ? "gpu:1" : "host");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace crossdock::offload
