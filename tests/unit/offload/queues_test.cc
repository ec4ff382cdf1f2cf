#include "crossdock/offload/queue_manager.h"

#include <atomic>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "unit/offload/support.h"

namespace crossdock::offload {
namespace {

using device::Queue;

using QueuesTest = OffloadTest;

TEST_F(QueuesTest, TheSameSelectorIsTheSameQueue) {
  const Queue queue = queues_->queue("gpu:1");
  EXPECT_EQ(queue.device(), kOne);
  EXPECT_EQ(queues_->queue("sim:gpu:1"), queue);
  EXPECT_EQ(queues_->queue(kOne), queue);
  EXPECT_EQ(drivers_->default_queue(kOne), queue);
  EXPECT_EQ(Queues(drivers_).queue("sim:1"), queue);
  EXPECT_NE(queues_->queue("gpu:0"), queue);
  EXPECT_EQ(queues_->queue("host").device(), device::Device{});
}

TEST_F(QueuesTest, TheDefaultIsTheFirstGpuAndElseTheHost) {
  EXPECT_EQ(queues_->default_queue().device(), kZero);
  sim_->set_devices(0);
  EXPECT_EQ(queues_->default_queue().device(), device::Device{});
  EXPECT_THROW(queues_->queue("gpu"), NotFoundError);
  sim_->set_devices(2);
  EXPECT_EQ(queues_->default_queue().device(), kZero);
}

TEST_F(QueuesTest, NamedOnesAreMadeOnce) {
  const Queue copies = queues_->queue(kOne, "copies");
  EXPECT_NE(copies, queues_->queue(kOne));
  EXPECT_EQ(copies, queues_->queue(kOne, "copies"));
  EXPECT_NE(copies, queues_->queue(kOne, "other"));
  EXPECT_NE(copies, queues_->queue(kZero, "copies"));
  EXPECT_EQ(copies.device(), kOne);
  EXPECT_EQ(queues_->name_of(copies), "copies");
  EXPECT_EQ(queues_->name_of(queues_->queue(kOne)), "");
  EXPECT_THROW(queues_->queue(kOne, ""), InvalidArgumentError);
  EXPECT_THROW(queues_->queue({.type = device::DeviceType::kExtDev, .id = 9}, "copies"), NotFoundError);
}

TEST_F(QueuesTest, ManyThreadsGetTheSame) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const Queue expected = queues_->queue(kZero, "one");
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        if (queues_->queue(kZero, "one") != expected || queues_->queue("gpu:1").device() != kOne) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace crossdock::offload
