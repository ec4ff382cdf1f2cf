#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/cuda.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::CudaTargetTest;
using crossdock::testing::message_of;
using ::testing::HasSubstr;

constexpr std::uint64_t kDelay = 150'000;  // microseconds; long against what a test does meanwhile

/// What runs before and after what. On the fake, whose streams are slow where a test wants that, and which finds
/// orders that are missing; and on a GPU where there is one, as far as that needn't be slow.
class CudaStreams : public CudaTargetTest {
 protected:
  void SetUp() override {
    CudaTargetTest::SetUp();
    if (IsSkipped()) return;
    context_ = driver_->open({.type = DeviceType::kCuda, .id = 0});
    queue_ = std::make_unique<Queue>(context_->make_queue());
  }
  void TearDown() override {
    queue_.reset();
    context_.reset();
    driver_.reset();
    if (cuda_ == nullptr || !on_fake()) return;
    reset();
    crossdock::testing::expect_nothing_alive(*cuda_);
  }

  void slow_down() const { CudaTargetTest::slow_down(kDelay); }
  /// Of work on a slow stream that it is under way still; of a GPU's that isn't known.
  void expect_under_way(const Event& event, const char* otherwise = "it was waited for") {
    if (on_fake()) {
      EXPECT_FALSE(context_->query(event)) << otherwise;
    }
  }
  static BufferRef host(std::string& bytes) {
    return {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
  }
  Buffer allocate(std::uint64_t size) {
    return context_->allocate(size, MemoryKind::kDevice, Sharing::kPrivate, *queue_);
  }
  Event mark(const Queue& queue) {
    Event event = context_->record(queue);
    return event;
  }
  void finish(const Queue& queue) { context_->wait(mark(queue)); }
  Queue wrapped(std::uintptr_t handle) {
    return context_->wrap_queue(NativeQueue(reinterpret_cast<void*>(handle)), nullptr);
  }

  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
};

CROSSDOCK_ON_CUDA(CudaStreams);

TEST_P(CudaStreams, NoVerbButWaitWaits) {
  std::string out = "slow";
  std::string in = "????";
  slow_down();
  Buffer a = allocate(4);
  Buffer b = allocate(4);
  const Queue other = context_->make_queue();
  context_->copy(a.ref(), host(out), *queue_);
  const Event copied = mark(*queue_);
  context_->order_after(other, copied);
  context_->copy(b.ref(), a.ref(), other);
  context_->copy(host(in), b.ref(), other);
  context_->free(std::move(a), other);
  context_->free(std::move(b), other);
  const Event end = mark(other);
  expect_under_way(copied);
  expect_under_way(end);
  context_->wait(end);
  EXPECT_EQ(in, "slow");
  EXPECT_TRUE(context_->query(copied));
  EXPECT_EQ(faults(), 0u);
}

TEST_P(CudaStreams, DroppingMemoryWaitsForNobodysWork) {
  std::string out = "slow";
  Buffer busy = allocate(4);
  Buffer idle = allocate(4);
  finish(*queue_);
  slow_down();
  context_->copy(busy.ref(), host(out), *queue_);
  const Event copied = mark(*queue_);
  idle = Buffer();
  expect_under_way(copied, "dropping waited for the queue that the memory was allocated on");
  context_->wait(copied);
  EXPECT_EQ(faults(), 0u);
}

TEST_P(CudaStreams, MemoryIsFreedOnAnotherQueueThanItWasAllocatedOn) {
  const Queue other = context_->make_queue();
  slow_down();
  context_->free(allocate(64), other);
  allocate(64);  // and dropped before its queue has come to it
  finish(other);
  finish(*queue_);
  EXPECT_EQ(faults(), 0u);
}

TEST_P(CudaStreams, AForgottenOrderIsFound) {
  if (!on_fake()) GTEST_SKIP() << "a GPU doesn't find it";
  std::string out = "racy";
  std::string in = "????";
  const Buffer buffer = allocate(4);
  const Queue other = context_->make_queue();
  slow_down();
  context_->copy(buffer.ref(), host(out), *queue_);
  context_->copy(host(in), buffer.ref(), other);
  EXPECT_THAT(message_of<SystemError>([&] { finish(other); }), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT_EQ(faults(), 1u);
  reset();
  finish(*queue_);
}

TEST_P(CudaStreams, FailedWorkFailsItsEventsAndItsContext) {
  if (!on_fake()) GTEST_SKIP() << "a GPU's work isn't made to fail";
  std::string out = "fail";
  const Buffer buffer = allocate(4);
  finish(*queue_);
  cuda_->control("crossdockCudaFakeFailWork");
  context_->copy(buffer.ref(), host(out), *queue_);
  const Event failed = mark(*queue_);
  const std::string what = message_of<SystemError>([&] { context_->wait(failed); });
  EXPECT_THAT(what, HasSubstr("CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"));
  ASSERT_NE(failed.failure(), nullptr);
  EXPECT_EQ(failed.failure()->what(), what);
  EXPECT_THROW(context_->query(failed), SystemError);
  EXPECT_THROW(context_->order_after(*queue_, failed), SystemError);
  EXPECT_THROW(context_->make_queue(), SystemError) << "in CUDA, a context is lost with the work that failed in it";
  reset();
}

TEST_P(CudaStreams, HostFunctionsAndFillsRunInTheStreamsOrder) {
  const Buffer buffer = allocate(4);
  std::string in = "????";
  finish(*queue_);
  void* primary = nullptr;
  cuda_->run("cuDevicePrimaryCtxRetain", &primary, 0);
  cuda_->run("cuCtxPushCurrent_v2", primary);
  slow_down();
  const auto pointer = reinterpret_cast<std::uint64_t>(buffer.data());
  cuda_->run("cuMemsetD8Async", pointer, static_cast<unsigned char>('m'), std::size_t{4}, queue_->native());
  std::atomic<bool> ran{false};
  void (*function)(void*) = [](void* argument) { *static_cast<std::atomic<bool>*>(argument) = true; };
  cuda_->run("cuLaunchHostFunc", queue_->native(), function, static_cast<void*>(&ran));
  if (on_fake()) {
    EXPECT_FALSE(ran);
  }
  context_->copy(host(in), buffer.ref(), *queue_);
  finish(*queue_);
  EXPECT_TRUE(ran);
  EXPECT_EQ(in, "mmmm");
  cuda_->run("cuCtxPopCurrent_v2", &primary);
  cuda_->run("cuDevicePrimaryCtxRelease_v2", 0);
}

// The default streams' rules, which are CUDA's own: the fake must keep them, or tests on it would mean nothing.

TEST_P(CudaStreams, TellADevice) {
  EXPECT_EQ(driver_->context_of_queue(NativeQueue(queue_->native()))->device, context_->device());
  for (const std::uintptr_t handle : {0, 1, 2}) {
    EXPECT_FALSE(driver_->context_of_queue(NativeQueue(reinterpret_cast<void*>(handle)))) << "each device has one";
  }
  EXPECT_FALSE(driver_->current_context());
  const int last = static_cast<int>(driver_->devices().size()) - 1;
  void* theirs = cuda_->make_context(last);
  void* stream = cuda_->make_stream();
  EXPECT_EQ(driver_->current_context()->device, (Device{DeviceType::kCuda, last}));
  EXPECT_EQ(driver_->context_of_queue(NativeQueue(stream))->device, (Device{DeviceType::kCuda, last}))
      << "in whatever context";
  EXPECT_EQ(driver_->context_of_queue(NativeQueue(queue_->native()))->device, context_->device());
  EXPECT_EQ(cuda_->current(), theirs);
  cuda_->run("cuStreamDestroy_v2", stream);
  cuda_->run("cuCtxDestroy_v2", theirs);
}

TEST_P(CudaStreams, EveryContextThatIsHeldServesToAskForAStreamsDevice) {
  void* theirs = cuda_->make_context(0);
  cuda_->run("cuCtxPopCurrent_v2", &theirs);
  driver_->open(context_->device(), NativeContext(theirs)).reset();
  EXPECT_EQ(driver_->context_of_queue(NativeQueue(queue_->native()))->device, context_->device())
      << "our primary one is held still";
  cuda_->run("cuCtxDestroy_v2", theirs);
}

TEST_P(CudaStreams, TheLegacyStreamIsOrderedWithBlockingOnes) {
  void* primary = nullptr;
  cuda_->run("cuDevicePrimaryCtxRetain", &primary, 0);
  cuda_->run("cuCtxPushCurrent_v2", primary);
  void* native = nullptr;
  cuda_->run("cuStreamCreate", &native, 0u);
  cuda_->run("cuCtxPopCurrent_v2", &primary);
  {
    const Queue blocking = context_->wrap_queue(NativeQueue(native), nullptr);
    const Queue legacy = wrapped(1);
    std::string out = "blocking";
    std::string in(8, '?');
    const Buffer a = allocate(8);
    const Buffer b = allocate(8);
    finish(*queue_);
    slow_down();
    context_->copy(a.ref(), host(out), blocking);
    context_->copy(b.ref(), a.ref(), legacy);
    context_->copy(host(in), b.ref(), blocking);
    finish(blocking);
    EXPECT_EQ(in, out);
    EXPECT_EQ(faults(), 0u);
  }
  cuda_->run("cuStreamDestroy_v2", native);
  cuda_->run("cuDevicePrimaryCtxRelease_v2", 0);
}

TEST_P(CudaStreams, TheLegacyStreamIsntOrderedWithOurs) {
  if (!on_fake()) GTEST_SKIP() << "a GPU doesn't find it";
  std::string out = "nonblock";
  std::string in(8, '?');
  const Buffer a = allocate(8);
  finish(*queue_);
  slow_down();
  context_->copy(a.ref(), host(out), *queue_);
  const Queue legacy = wrapped(1);
  context_->copy(host(in), a.ref(), legacy);
  EXPECT_THROW(finish(legacy), SystemError);
  EXPECT_EQ(faults(), 1u);
  reset();
  finish(*queue_);
}

TEST_P(CudaStreams, AnotherThreadsOwnStreamIsRefused) {
  const Queue own = wrapped(2);
  const Queue named = context_->make_queue();
  EXPECT_TRUE(own.thread_bound());
  EXPECT_FALSE(named.thread_bound());
  EXPECT_TRUE(own == wrapped(2));
  std::thread other([&] {
    EXPECT_FALSE(own.usable_here());
    EXPECT_TRUE(named.usable_here());
    EXPECT_FALSE(own == wrapped(2));
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { mark(own); }), HasSubstr("another thread"));
    EXPECT_THROW(context_->order_after(own, mark(named)), InvalidArgumentError);
    Buffer buffer = context_->allocate(4, MemoryKind::kDevice, Sharing::kPrivate, named);
    EXPECT_THROW(context_->free(std::move(buffer), own), InvalidArgumentError);
  });
  other.join();
  finish(own);
}

TEST_P(CudaStreams, ThePerThreadStreamIsEachThreadsOwn) {
  std::string out = "mine";
  std::string in = "????";
  const Buffer a = allocate(4);
  finish(*queue_);
  const Queue own = wrapped(2);
  slow_down();
  context_->copy(a.ref(), host(out), own);
  const Event copied = mark(own);
  std::thread other([&] {
    finish(wrapped(2));
    expect_under_way(copied, "another thread's stream has no part in this one's work");
    context_->order_after(wrapped(2), copied);
    context_->copy(host(in), a.ref(), wrapped(2));
    finish(wrapped(2));
  });
  other.join();
  EXPECT_EQ(in, "mine");
  EXPECT_EQ(faults(), 0u);
}

}  // namespace
}  // namespace crossdock::device
