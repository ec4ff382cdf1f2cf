#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/cuda.h"
#include "device/memory_handle.h"
#include "support/cuda.h"
#include "support/message_of.h"
#include "support/scoped_variable.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::Cuda;
using crossdock::testing::message_of;
using crossdock::testing::ScopedVariable;
using ::testing::HasSubstr;

constexpr int kOutOfMemory = 2;
constexpr int kLaunchFailed = 719;
constexpr int kNotSupported = 801;
constexpr int kUnknown = 999;
constexpr int kPools = 115;
constexpr int kManaged = 83;

/// What happens when CUDA fails: on the fake, which does so when it is told to.
class CudaFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda_.control("crossdockCudaFakeReset");
    open();
  }
  void TearDown() override {
    drop();
    crossdock::testing::expect_no_faults(cuda_);
    cuda_.control("crossdockCudaFakeReset");
    crossdock::testing::expect_nothing_alive(cuda_);
  }

  void open() {
    driver_ = make_cuda_driver({CROSSDOCK_CUDA_FAKE});
    context_ = driver_->open({.type = DeviceType::kCuda, .id = 0});
    queue_ = std::make_unique<Queue>(context_->make_queue());
  }
  void drop() {
    queue_.reset();
    context_.reset();
    driver_.reset();
  }
  static BufferRef host(std::string& bytes) {
    return {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
  }
  Buffer allocate(std::uint64_t size, MemoryKind kind = MemoryKind::kDevice, Sharing sharing = Sharing::kPrivate) {
    return context_->allocate(size, kind, sharing, *queue_);
  }
  void finish() {
    Event event = context_->record(*queue_);
    context_->wait(event);
  }

  Cuda cuda_{"Fake"};
  std::shared_ptr<Driver> driver_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
};

TEST_F(CudaFailures, AreNamedAsCudaNamesThem) {
  cuda_.fail("cuMemAllocFromPoolAsync", 1, kOutOfMemory);
  const std::string what = message_of<ResourceError>([&] { allocate(4096); });
  EXPECT_THAT(what, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
  EXPECT_THAT(what, HasSubstr("allocating 4096 bytes on cuda:0"));
  cuda_.fail("cuStreamCreate", 1, kNotSupported);
  EXPECT_THROW(context_->make_queue(), UnsupportedError);
  cuda_.fail("cuStreamCreate", 1, 12345);
  EXPECT_THAT(message_of<SystemError>([&] { context_->make_queue(); }), HasSubstr("CUDA error 12345"));
}

TEST_F(CudaFailures, OfEveryCallLeaveNothingBehind) {
  drop();
  // One of each thing, so that each function is called. What a failure leaves half done is waited for, as whoever
  // drops memory must.
  const auto everything = [&] {
    std::string bytes(64, 'x');
    std::vector<Buffer> buffers;
    std::vector<Queue> queues;
    const auto keep = [&](Buffer buffer) -> Buffer& { return buffers.emplace_back(std::move(buffer)); };
    bool failed = false;
    try {
      open();
      queues.push_back(*queue_);
      for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared}) {
        keep(allocate(64, kind));
        Buffer& freed = keep(allocate(64, kind));
        context_->copy(freed.ref(), host(bytes), *queue_);
        finish();
        context_->free(std::move(freed), *queue_);
      }
      const BufferRef shared = keep(allocate(64, MemoryKind::kDevice, Sharing::kExportable)).ref();
      context_->import_memory(context_->export_memory(shared), "here");
      context_->adopt(shared, nullptr);
      const auto other = driver_->open({.type = DeviceType::kCuda, .id = 1});
      queues.push_back(other->make_queue());
      const BufferRef there = keep(other->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, queues.back())).ref();
      Event allocated = other->record(queues.back());
      context_->order_after(*queue_, allocated);
      context_->copy(shared, there, *queue_);
      context_->wrap_queue(NativeQueue(queue_->native()), nullptr);
      Event event = context_->record(*queue_);
      context_->query(event);
      context_->wait(event);
    } catch (const Error&) {
      failed = true;
    }
    for (const Queue& queue : queues) cuda_.run("cuStreamSynchronize", queue.native());
    return failed;
  };
  const std::vector<std::string> functions = {"cuDeviceGetCount",      "cuDeviceGet",
                                              "cuDeviceGetUuid_v2",    "cuMemPoolCreate",
                                              "cuMemPoolSetAttribute", "cuStreamIsCapturing",
                                              "cuStreamQuery",         "cuDevicePrimaryCtxRetain",
                                              "cuCtxGetCurrent",       "cuCtxPushCurrent_v2",
                                              "cuMemAlloc_v2",         "cuMemAllocFromPoolAsync",
                                              "cuMemHostAlloc",        "cuMemAllocManaged",
                                              "cuMemcpyAsync",         "cuMemcpyPeerAsync",
                                              "cuStreamCreate",        "cuPointerGetAttributes",
                                              "cuStreamGetCtx",        "cuStreamWaitEvent",
                                              "cuEventCreate",         "cuEventRecord",
                                              "cuEventQuery",          "cuEventSynchronize",
                                              "cuIpcGetMemHandle",     "cuDeviceGetAttribute"};
  for (const std::string& function : functions) {
    cuda_.control("crossdockCudaFakeReset");
    EXPECT_FALSE(everything());
    drop();
    const std::uint64_t calls = cuda_.calls(function.c_str());
    EXPECT_GT(calls, 0u) << function;
    for (const int result : {kOutOfMemory, kUnknown}) {
      for (std::uint64_t nth = 1; nth <= calls; ++nth) {
        cuda_.control("crossdockCudaFakeReset");
        cuda_.fail(function.c_str(), static_cast<int>(nth), result);
        everything();
        drop();
        SCOPED_TRACE(function + " failing at call " + std::to_string(nth));
        EXPECT_EQ(cuda_.current(), nullptr);
        const CrossdockCudaFakeLive live = cuda_.live();
        EXPECT_EQ(live.contexts, 0u);
        // Where a context can't be entered to free something, it goes with the context.
        const bool entering = function == "cuCtxPushCurrent_v2" || function == "cuCtxGetCurrent";
        if (!entering) crossdock::testing::expect_nothing_alive(cuda_);
        cuda_.control("crossdockCudaFakeForget");
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST_F(CudaFailures, OfWorkAreCarriedByItsEvents) {
  for (const bool by_query : {true, false}) {
    cuda_.control("crossdockCudaFakeReset");
    Event event = context_->record(*queue_);
    void* native = context_->describe(allocate(8, MemoryKind::kHost).data()).context;
    ASSERT_NE(native, nullptr);
    cuda_.control("crossdockCudaFakeBreak", native, kLaunchFailed);
    const std::string what =
        message_of<SystemError>([&] { by_query ? void(context_->query(event)) : context_->wait(event); });
    EXPECT_THAT(what, HasSubstr("CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"));
    const Event copy = event;
    ASSERT_NE(copy.failure(), nullptr);
    EXPECT_EQ(copy.failure()->what(), what);
    EXPECT_THROW(context_->order_after(*queue_, copy), SystemError);
  }
}

TEST_F(CudaFailures, OfAQueueAreCarriedByTheEventRecordedOnIt) {
  cuda_.fail("cuEventRecord", 1, kLaunchFailed);
  const Event event = context_->record(*queue_);
  EXPECT_THAT(message_of<SystemError>([&] { context_->wait(event); }), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT_THROW(context_->query(event), SystemError);
  cuda_.fail("cuEventRecord", 1, 400);
  EXPECT_THROW(context_->record(*queue_), InvalidArgumentError);
  const Event other = context_->record(*queue_);
  cuda_.fail("cuEventQuery", 1, 400);
  EXPECT_THROW(context_->query(other), InvalidArgumentError);
  EXPECT_EQ(other.failure(), nullptr);
  EXPECT_TRUE(context_->query(other));
}

TEST_F(CudaFailures, AtTheEndOfThingsAreNobodysProblem) {
  Buffer buffer = allocate(64);
  Buffer freed = allocate(64);
  finish();
  cuda_.fail("cuMemFreeAsync", 1, kUnknown);
  cuda_.fail("cuMemFreeAsync", 2, kUnknown);
  buffer = Buffer();
  EXPECT_NO_THROW(context_->free(std::move(freed), *queue_));
  EXPECT_EQ(cuda_.calls("cuMemFree_v2"), 2u) << "freed another way";
}

TEST_F(CudaFailures, ToNoteTheEndOfWorkIsMadeUpForByWaiting) {
  bool dropped = false;
  std::string from = "late";
  std::string to = "????";
  for (const char* function : {"cuEventCreate", "cuEventRecord"}) {
    cuda_.control("crossdockCudaFakeSetDelay", std::uint64_t{10'000});
    to = "????";
    Buffer adopted =
        context_->adopt(host(to), std::shared_ptr<void>(to.data(), [&](void*) { dropped = to == "late"; }));
    context_->copy(adopted.ref(), host(from), *queue_);
    cuda_.fail(function, 1, kOutOfMemory);
    context_->free(std::move(adopted), *queue_);
    EXPECT_TRUE(dropped) << function;
    cuda_.control("crossdockCudaFakeSetDelay", std::uint64_t{0});
  }
}

// Contexts that their library destroys, and others that then have their addresses

TEST_F(CudaFailures, FreesOfAContextThatIsGoneAreWaitedForByNobody) {
  std::string from = "late";
  std::string to = "????";
  for (const char* function : {"", "cuCtxGetId"}) {
    for (const bool at_the_end : {false, true}) {
      drop();
      cuda_.control("crossdockCudaFakeHide", function);
      open();
      void* foreign = cuda_.make_context(0);
      cuda_.run("cuCtxPopCurrent_v2", &foreign);
      bool dropped = false;
      {
        const auto context = driver_->open(context_->device(), NativeContext(foreign));
        const Queue queue = context->make_queue();
        cuda_.control("crossdockCudaFakeSetDelay", std::uint64_t{200'000});
        Buffer adopted = context->adopt(host(to), std::shared_ptr<void>(to.data(), [&](void*) { dropped = true; }));
        context->copy(adopted.ref(), host(from), queue);
        context->free(std::move(adopted), queue);
      }
      cuda_.control("crossdockCudaFakeSetDelay", std::uint64_t{0});
      EXPECT_FALSE(dropped) << "the end of the context's last user waited";
      cuda_.run("cuCtxDestroy_v2", foreign);
      const auto waits = [&] { return cuda_.calls("cuEventSynchronize") + cuda_.calls("cuCtxSynchronize"); };
      const std::uint64_t before = waits();
      at_the_end ? drop() : finish();
      EXPECT_TRUE(dropped);
      EXPECT_EQ(waits() - before, at_the_end ? 0U : 1U) << "only finish() waits, for its own queue";
      cuda_.control("crossdockCudaFakeReset");
      to = "????";
    }
  }
  open();
}

TEST_F(CudaFailures, AContextAtTheAddressOfOneThatIsGoneIsAnother) {
  const Device first{.type = DeviceType::kCuda, .id = 0};
  const Device second{.type = DeviceType::kCuda, .id = 1};
  for (const Device& device : {first, second}) {
    void* gone = cuda_.make_context(0);
    const auto old = driver_->open(first, NativeContext(gone));
    auto queue = std::make_unique<Queue>(old->make_queue());
    cuda_.run("cuCtxDestroy_v2", gone);
    ASSERT_EQ(cuda_.make_context(static_cast<int>(device.id)), gone);
    EXPECT_EQ(driver_->current_context()->device, device);
    EXPECT_EQ(driver_->current_context()->native.get(), gone);
    EXPECT_THROW(old->record(*queue), ClosedError);
    const auto made = driver_->open(device, NativeContext(gone));
    EXPECT_NO_THROW(made->record(made->make_queue()));
    queue.reset();
    cuda_.run("cuCtxDestroy_v2", gone);
  }
}

TEST_F(CudaFailures, WithoutIdsADeviceTellsAContextFromOneThatIsGone) {
  drop();
  cuda_.control("crossdockCudaFakeHide", "cuCtxGetId");
  open();
  void* gone = cuda_.make_context(0);
  const auto old = driver_->open(context_->device(), NativeContext(gone));
  cuda_.run("cuCtxDestroy_v2", gone);
  ASSERT_EQ(cuda_.make_context(1), gone);
  EXPECT_EQ(driver_->current_context()->device.id, 1);
  EXPECT_THROW(old->make_queue(), ClosedError);
  cuda_.run("cuCtxDestroy_v2", gone);
}

TEST_F(CudaFailures, AContextThatIsGoneDoesntServeToAskForAStreamsDevice) {
  drop();
  driver_ = make_cuda_driver({CROSSDOCK_CUDA_FAKE});
  void* gone = cuda_.make_context(0);
  const auto old = driver_->open(driver_->devices().front(), NativeContext(gone));
  cuda_.run("cuCtxDestroy_v2", gone);
  void* other = cuda_.make_context(1);
  ASSERT_EQ(other, gone);
  void* stream = cuda_.make_stream();
  cuda_.run("cuCtxPopCurrent_v2", &other);
  EXPECT_FALSE(driver_->context_of_queue(NativeQueue(stream))) << "without any context, CUDA refuses to say";
  context_ = driver_->open(driver_->devices().front());
  EXPECT_EQ(driver_->context_of_queue(NativeQueue(stream))->device.id, 1);
  cuda_.run("cuStreamDestroy_v2", stream);
  cuda_.run("cuCtxDestroy_v2", other);
}

TEST_F(CudaFailures, AContextThatNobodyUsesNowOpensAgainAtOnce) {
  void* foreign = cuda_.make_context(0);
  void* stream = cuda_.make_stream();
  cuda_.run("cuCtxPopCurrent_v2", &foreign);
  const auto record = [&] {
    const auto context = driver_->open(context_->device(), NativeContext(foreign));
    context->record(context->wrap_queue(NativeQueue(stream), nullptr));
  };
  record();
  const std::uint64_t retained = cuda_.calls("cuDevicePrimaryCtxRetain");
  const std::uint64_t pushed = cuda_.calls("cuCtxPushCurrent_v2");
  record();
  EXPECT_EQ(cuda_.calls("cuDevicePrimaryCtxRetain"), retained);
  EXPECT_EQ(cuda_.calls("cuCtxPushCurrent_v2"), pushed + 3) << "for wrap_queue, record and the event's end";
  cuda_.run("cuStreamDestroy_v2", stream);
  cuda_.run("cuCtxDestroy_v2", foreign);
}

// What devices lack

TEST_F(CudaFailures, WithoutPoolsMemoryIsAllocatedAtOnce) {
  drop();
  cuda_.control("crossdockCudaFakeSetAttribute", kPools, 0);
  open();
  const std::uint64_t before = cuda_.calls("cuMemAllocFromPoolAsync");
  {
    Buffer freed = allocate(64);
    const Buffer dropped = allocate(64);
    context_->free(std::move(freed), *queue_);
    finish();
    EXPECT_EQ(cuda_.live().allocations, 1u);
  }
  EXPECT_EQ(cuda_.live().allocations, 0u);
  EXPECT_EQ(cuda_.calls("cuMemAllocFromPoolAsync"), before);
}

TEST_F(CudaFailures, WithoutManagedMemoryItIsRefused) {
  drop();
  cuda_.control("crossdockCudaFakeSetAttribute", kManaged, 0);
  open();
  EXPECT_THAT(message_of<UnsupportedError>([&] { allocate(64, MemoryKind::kShared); }), HasSubstr("managed"));
  EXPECT_NO_THROW(allocate(64, MemoryKind::kHost));
}

// How memory of pools goes

TEST_F(CudaFailures, PoolMemoryIsAllocatedAndFreedInTheQueuesOrder) {
  Buffer freed = allocate(64);
  EXPECT_EQ(cuda_.calls("cuMemAllocFromPoolAsync"), 1u);
  EXPECT_EQ(cuda_.calls("cuMemAlloc_v2"), 0u);
  context_->free(std::move(freed), *queue_);
  EXPECT_EQ(cuda_.calls("cuMemFreeAsync"), 1u);
  EXPECT_EQ(cuda_.live().allocations, 0u) << "in CUDA's hands, whatever its queue is doing";
  { const Buffer dropped = allocate(64); }
  EXPECT_EQ(cuda_.calls("cuMemFreeAsync"), 2u);
  // It is the device's memory, whichever of its contexts here it came from.
  driver_->open(context_->device())->free(allocate(64), *queue_);
  EXPECT_EQ(cuda_.calls("cuMemFreeAsync"), 3u);
  EXPECT_EQ(cuda_.live().allocations, 0u);
  EXPECT_EQ(cuda_.calls("cuMemFree_v2"), 0u);
  EXPECT_EQ(cuda_.calls("cuStreamSynchronize") + cuda_.calls("cuCtxSynchronize"), 0u);
  finish();
}

TEST_F(CudaFailures, FreeMemoryOfThePoolIsUsedAgainAfterAWait) {
  constexpr std::uint64_t kSize = std::uint64_t{1} << 20;
  const auto mapped_by_three = [&] {
    drop();
    cuda_.control("crossdockCudaFakeReset");
    open();
    for (int i = 0; i < 3; ++i) {
      { const Buffer dropped = allocate(kSize); }
      finish();
    }
    return cuda_.mapped();
  };
  EXPECT_EQ(mapped_by_three(), kSize);
  EXPECT_EQ(cuda_.pools(), 1u);
  drop();
  EXPECT_EQ(cuda_.pools(), 0u);
  {
    const ScopedVariable none("CROSSDOCK_CUDA_POOL_BYTES", "0");
    EXPECT_EQ(mapped_by_three(), 3 * kSize) << "returned to the system at each wait";
  }
  const ScopedVariable nonsense("CROSSDOCK_CUDA_POOL_BYTES", "1 MiB");
  EXPECT_EQ(mapped_by_three(), kSize);
}

TEST_F(CudaFailures, FreeMemoryOfThePoolMakesRoomForOtherMemory) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared}) {
    const char* const function = kind == MemoryKind::kDevice ? "cuMemAlloc_v2"
                                 : kind == MemoryKind::kHost ? "cuMemHostAlloc"
                                                             : "cuMemAllocManaged";
    const Sharing sharing = kind == MemoryKind::kDevice ? Sharing::kExportable : Sharing::kPrivate;
    { const Buffer dropped = allocate(64); }
    finish();
    cuda_.fail(function, 1, kOutOfMemory);
    EXPECT_NO_THROW(allocate(64, kind, sharing)) << function;
    cuda_.fail(function, 1, kOutOfMemory);
    EXPECT_THROW(allocate(64, kind, sharing), ResourceError) << "the pool has none left";
  }
}

TEST_F(CudaFailures, WithoutAPoolOfItsOwnItUsesTheDefaultOne) {
  for (const char* function : {"cuMemPoolCreate", "cuMemPoolSetAttribute"}) {
    drop();
    open();
    cuda_.fail(function, 1, kNotSupported);
    const Buffer buffer = allocate(64);
    EXPECT_GT(cuda_.calls("cuMemAllocAsync"), 0u) << function;
    EXPECT_EQ(cuda_.pools(), 0u) << function;
  }
}

TEST_F(CudaFailures, APoolOutlivesItsContextWithItsMemory) {
  Buffer kept = allocate(64);
  drop();
  EXPECT_EQ(cuda_.pools(), 1u);
  kept = Buffer();
  EXPECT_EQ(cuda_.pools(), 0u);
}

TEST_F(CudaFailures, MemoryIsFreedAtOnceIfItsQueueHasNoWork) {
  Buffer buffer = allocate(64, MemoryKind::kDevice, Sharing::kExportable);
  context_->free(std::move(buffer), *queue_);
  EXPECT_EQ(cuda_.live().allocations, 0u) << "no other verb may follow";
  // And where that can't be said, later.
  for (const char* function : {"cuStreamIsCapturing", "cuStreamQuery"}) {
    buffer = allocate(64, MemoryKind::kHost);
    cuda_.fail(function, 1, kUnknown);
    context_->free(std::move(buffer), *queue_);
    EXPECT_EQ(cuda_.live().allocations, 1u) << function;
    finish();
    EXPECT_EQ(cuda_.live().allocations, 0u) << function;
  }
}

TEST_F(CudaFailures, ADeviceIsNamedByTheUuidOfItsMigInstance) {
  const std::string its = context_->identity();
  EXPECT_THAT(its, HasSubstr("crossdock"));
  drop();
  cuda_.control("crossdockCudaFakeHide", "cuDeviceGetUuid_v2");
  open();
  EXPECT_THAT(context_->identity(), HasSubstr("Crossdock")) << "before CUDA 11.4";
}

TEST_F(CudaFailures, ToOpenMemoryOfThisVeryProcessSaySo) {
  const Buffer buffer = allocate(64, MemoryKind::kDevice, Sharing::kExportable);
  const auto import = [&] {
    MemoryHandle handle = context_->export_memory(buffer.ref());
    handle.opaque.back() ^= std::byte{1};  // as another copy of the library exports it
    context_->import_memory(std::move(handle), "a server");
  };
  cuda_.fail("cuIpcOpenMemHandle_v2", 1, 201);
  EXPECT_THAT(message_of<UnsupportedError>(import), HasSubstr("a server: CUDA opens no memory in the process that"));
  cuda_.fail("cuIpcOpenMemHandle_v2", 1, 205);
  EXPECT_THAT(message_of<ResourceError>(import), HasSubstr("CUDA_ERROR_MAP_FAILED"));
  for (const int result : {304, kUnknown}) {
    cuda_.fail("cuIpcOpenMemHandle_v2", 1, result);
    EXPECT_THAT(message_of<SystemError>(import),
                HasSubstr("memory from a server, whose process must still be running"));
  }
}

TEST_F(CudaFailures, MemoryThatOthersHoldTooIsParked) {
  Buffer buffer = allocate(64);
  const BufferRef ref = buffer.ref();
  std::shared_ptr<void> owner = buffer.release();
  context_->free(Buffer(ref, owner), *queue_);
  finish();
  EXPECT_EQ(cuda_.live().allocations, 1u);
  EXPECT_EQ(owner.use_count(), 1);
  owner.reset();
  EXPECT_EQ(cuda_.live().allocations, 0u);
}

}  // namespace
}  // namespace crossdock::device
