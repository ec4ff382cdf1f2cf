#include "crossdock/exchange/cuda_array.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "unit/device/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using crossdock::testing::counting_owner;
using crossdock::testing::CudaTargetTest;
using crossdock::testing::kDelay;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using ::testing::HasSubstr;

/// A producer that uses CUDA by its own interface.
class CudaArrayTest : public CudaTargetTest {
 protected:
  void SetUp() override {
    CudaTargetTest::SetUp();
    if (IsSkipped()) return;
    drivers_.add(device::make_default_registry()->find("host"));
    drivers_.add(driver_);
    context_ = drivers_.context({DeviceType::kCuda, 0});
    cuda_->run("cuDevicePrimaryCtxRetain", &primary_, 0);
    cuda_->run("cuCtxPushCurrent_v2", primary_);
    stream_ = cuda_->make_stream();
    cuda_->run("cuMemAlloc_v2", &pointer_, std::size_t{256});
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    cuda_->call("cuCtxSynchronize");
    EXPECT_EQ(faults(), expected_faults_);
    reset();
    cuda_->run("cuMemFree_v2", pointer_);
    cuda_->run("cuStreamDestroy_v2", stream_);
    void* popped = nullptr;
    cuda_->run("cuCtxPopCurrent_v2", &popped);
    cuda_->run("cuDevicePrimaryCtxRelease_v2", 0);
  }

  void slow_down() const { CudaTargetTest::slow_down(kDelay); }
  std::size_t devices() const { return drivers_.find("cuda")->devices().size(); }
  std::int64_t stream() const { return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream_)); }
  Tensor described(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::int64_t offset = 0) const {
    return made_tensor("int8", std::move(shape), std::move(strides),
                       reinterpret_cast<void*>(pointer_ + static_cast<std::uint64_t>(offset)));
  }
  void import(Tensor* tensor, std::int64_t version = 3, CudaStream stream = std::nullopt, bool sync = true) const {
    import_cuda_array(tensor, version, stream, sync, drivers_);
  }
  Tensor imported(CudaStream stream, std::int64_t version = 3, bool sync = true) const {
    Tensor tensor = described({256}, {1});
    import(&tensor, version, stream, sync);
    return tensor;
  }
  std::string refused(Tensor tensor, std::int64_t version = 3, CudaStream stream = std::nullopt) const {
    return message_of<InvalidDataError>([&] { import(&tensor, version, stream); });
  }
  /// The producer's work: sets every byte.
  void fill(char value) const {
    cuda_->run("cuMemsetD8Async", pointer_, static_cast<unsigned char>(value), std::size_t{256}, stream_);
  }
  /// The consumer's: copies the bytes to the host on a queue of its own.
  std::string read_on(const device::Queue& queue) const {
    std::string bytes(256, '?');
    context_->copy({.data = bytes.data(), .size = 256, .device = {}, .kind = MemoryKind::kHost, .read_only = false},
                   {.data = reinterpret_cast<void*>(pointer_),
                    .size = 256,
                    .device = {DeviceType::kCuda, 0},
                    .kind = MemoryKind::kDevice,
                    .read_only = true},
                   queue);
    device::Event end = context_->record(queue);
    context_->wait(end);
    return bytes;
  }

  device::DriverRegistry drivers_;
  std::shared_ptr<device::Context> context_;
  void* primary_ = nullptr;
  void* stream_ = nullptr;
  std::uint64_t pointer_ = 0;
  std::uint64_t expected_faults_ = 0;
};

// What is read

TEST_P(CudaArrayTest, ThePointerSaysWhereItIs) {
  const Tensor tensor = imported(std::nullopt);
  EXPECT_EQ(tensor.device, (Device{DeviceType::kCuda, 0}));
  EXPECT_EQ(tensor.kind, MemoryKind::kDevice);
  EXPECT_FALSE(tensor.queue);
  EXPECT_TRUE(tensor.ready());
}

TEST_P(CudaArrayTest, PinnedAndManagedMemory) {
  std::uint64_t managed = 0;
  void* pinned = nullptr;
  cuda_->run("cuMemAllocManaged", &managed, std::size_t{64}, 1u);
  cuda_->run("cuMemHostAlloc", &pinned, std::size_t{64}, 0u);
  Tensor tensor = made_tensor("int8", {64}, {1}, reinterpret_cast<void*>(managed));
  import(&tensor);
  EXPECT_EQ(tensor.device.type, DeviceType::kCudaManaged);
  EXPECT_EQ(tensor.kind, MemoryKind::kShared);
  tensor = made_tensor("int8", {64}, {1}, pinned);
  import(&tensor, 3, stream());
  EXPECT_EQ(tensor.device.type, DeviceType::kCudaHost);
  EXPECT_EQ(tensor.kind, MemoryKind::kHost);
  ASSERT_TRUE(tensor.queue);
  EXPECT_EQ(tensor.queue->native(), stream_);
  tensor = Tensor();
  cuda_->run("cuMemFree_v2", managed);
  cuda_->run("cuMemFreeHost", pinned);
}

TEST_P(CudaArrayTest, HostMemoryMappedForTheDeviceComesWithTheHostsAddressAndGoesWithTheDevices) {
  alignas(64) static char memory[64];
  cuda_->run("cuMemHostRegister_v2", static_cast<void*>(memory), sizeof memory, 0u);
  std::uint64_t on_device = 0;
  cuda_->run("cuMemHostGetDevicePointer_v2", &on_device, static_cast<void*>(memory), 0u);
  Tensor tensor = made_tensor("int8", {32}, {1}, memory + 16);
  import(&tensor);
  EXPECT_EQ(tensor.data, memory + 16);
  EXPECT_EQ(tensor.device.type, DeviceType::kCudaHost);
  tensor.data = reinterpret_cast<void*>(on_device + 16);
  import(&tensor);
  EXPECT_EQ(tensor.data, memory + 16);
  export_cuda_array(&tensor, drivers_);
  EXPECT_EQ(tensor.data, reinterpret_cast<void*>(on_device + 16));
  if (on_fake()) {
    EXPECT_NE(tensor.data, memory + 16);
  }
  cuda_->run("cuMemHostUnregister", static_cast<void*>(memory));
}

TEST_P(CudaArrayTest, PinnedAndManagedMemoryHaveTheirDevicesContextAndQueue) {
  for (const DeviceType type : {DeviceType::kCudaHost, DeviceType::kCudaManaged}) {
    EXPECT_EQ(drivers_.context({type, 0}), context_);
    EXPECT_EQ(drivers_.default_queue({type, 0}).native(), drivers_.default_queue({DeviceType::kCuda, 0}).native());
    if (devices() > 1) {
      EXPECT_NE(drivers_.context({type, 1}), context_);
    }
  }
}

TEST_P(CudaArrayTest, AnotherDevice) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  void* second = nullptr;
  cuda_->run("cuDevicePrimaryCtxRetain", &second, 1);
  cuda_->run("cuCtxPushCurrent_v2", second);
  std::uint64_t there = 0;
  cuda_->run("cuMemAlloc_v2", &there, std::size_t{64});
  void* stream = cuda_->make_stream();
  cuda_->run("cuCtxPopCurrent_v2", &second);
  Tensor tensor = made_tensor("int8", {64}, {1}, reinterpret_cast<void*>(there));
  import(&tensor, 3, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream)));
  EXPECT_EQ(tensor.device, (Device{DeviceType::kCuda, 1}));
  EXPECT_EQ(tensor.queue->device(), (Device{DeviceType::kCuda, 1}));
  tensor = Tensor();
  cuda_->run("cuCtxPushCurrent_v2", second);
  cuda_->run("cuMemFree_v2", there);
  cuda_->run("cuStreamDestroy_v2", stream);
  cuda_->run("cuCtxPopCurrent_v2", &second);
  cuda_->run("cuDevicePrimaryCtxRelease_v2", 1);
}

TEST_P(CudaArrayTest, AStreamOfAnotherDeviceThanTheMemorys) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  const auto there = drivers_.context({DeviceType::kCuda, 1});
  const device::Queue across = there->make_queue();
  std::uint64_t managed = 0;
  void* pinned = nullptr;
  cuda_->run("cuMemAllocManaged", &managed, std::size_t{256}, 1u);
  cuda_->run("cuMemHostAlloc", &pinned, std::size_t{256}, 0u);
  std::string bytes(256, 'x');
  const Tensor source =
      transfer(made_tensor("int8", {256}, {1}, bytes.data()), {DeviceType::kCuda, 1}, {}, nullptr, drivers_);
  slow_down();
  for (void* const memory : {reinterpret_cast<void*>(managed), pinned, reinterpret_cast<void*>(pointer_)}) {
    const device::PointerInfo info = context_->describe(memory);
    there->copy({.data = memory, .size = 256, .device = info.device, .kind = info.kind, .read_only = false},
                {.data = source.data, .size = 256, .device = source.device, .kind = source.kind, .read_only = true},
                across);
    Tensor tensor = made_tensor("int8", {256}, {1}, memory);
    import(&tensor, 3, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(across.native())));
    EXPECT_EQ(tensor.device.id, 0);
    ASSERT_TRUE(tensor.queue);
    EXPECT_EQ(*tensor.queue, across);
    Tensor shown = tensor;
    EXPECT_EQ(export_cuda_array(&shown, drivers_), reinterpret_cast<std::intptr_t>(across.native()));
    const Tensor here = transfer(tensor, Device{}, {}, nullptr, drivers_);
    EXPECT_EQ(std::string(static_cast<const char*>(here.data), 256), std::string(256, 'x'));
  }
  there->wait(there->record(across));
  cuda_->run("cuMemFree_v2", managed);
  cuda_->run("cuMemFreeHost", pinned);
}

TEST_P(CudaArrayTest, TheStreamShownOfWorkOnAnotherDevice) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  const auto there = drivers_.context({DeviceType::kCuda, 1});
  slow_down();
  fill('y');
  Tensor tensor = imported(stream());
  const device::Queue across = there->make_queue();
  there->order_after(across, tensor.pending());
  tensor.set_queue(there, across);
  EXPECT_EQ(export_cuda_array(&tensor, drivers_), reinterpret_cast<std::intptr_t>(across.native()));
  // A default stream, by whose handle the reader would mean one of the memory's device
  tensor.set_queue(there, there->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(std::uintptr_t{1})), nullptr));
  EXPECT_EQ(export_cuda_array(&tensor, drivers_),
            reinterpret_cast<std::intptr_t>(drivers_.default_queue({DeviceType::kCuda, 1}).native()));
  EXPECT_EQ(*tensor.queue, drivers_.default_queue({DeviceType::kCuda, 1}));
  // One that is bound to another thread
  tensor.event = there->record(across);
  std::thread([&] {
    tensor.queue = there->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(std::uintptr_t{2})), nullptr);
  }).join();
  export_cuda_array(&tensor, drivers_);
  EXPECT_EQ(*tensor.queue, drivers_.default_queue({DeviceType::kCuda, 1}));
  there->wait(there->record(*tensor.queue));
}

TEST_P(CudaArrayTest, ElementsStayInTheirAllocation) {
  Tensor fits = described({256}, {-1}, 255);
  import(&fits);
  EXPECT_EQ(fits.data, reinterpret_cast<void*>(pointer_ + 255));
  fits = described({2, 64}, {128, 1}, 64);
  import(&fits);
  EXPECT_THAT(refused(described({257}, {1})), HasSubstr("from byte 0 to byte 257 of an allocation of 256 bytes"));
  EXPECT_THAT(refused(described({256}, {1}, 1)), HasSubstr("to byte 257"));
  EXPECT_THAT(refused(described({2}, {256})), HasSubstr("to byte 257"));
  EXPECT_THAT(refused(described({2}, {-1})), HasSubstr("from byte -1"));
  EXPECT_THAT(refused(described({3}, {-128}, 255)), HasSubstr("from byte -1"));
}

TEST_P(CudaArrayTest, APointerThatTheDriverDoesntKnow) {
  char here = 0;
  EXPECT_THAT(refused(made_tensor("int8", {1}, {1}, &here)), HasSubstr("doesn't know the pointer"));
  EXPECT_THAT(refused(made_tensor("int8", {1}, {1}, reinterpret_cast<void*>(0x1000))), HasSubstr("doesn't know"));
  EXPECT_THAT(refused(made_tensor("int8", {1}, {1}, nullptr)), HasSubstr("null pointer"));
}

TEST_P(CudaArrayTest, OfNoElementsThePointerIsIgnored) {
  for (const std::int64_t version : {0, 1, 2, 3}) {
    Tensor tensor = made_tensor("int8", {0, 3}, {3, 1}, reinterpret_cast<void*>(0x1000));
    import(&tensor, version, stream());
    EXPECT_EQ(tensor.data, nullptr);
    EXPECT_TRUE(tensor.ready());
    EXPECT_FALSE(tensor.queue);
  }
}

TEST_P(CudaArrayTest, VersionsZeroToThree) {
  for (const std::int64_t version : {std::int64_t{-1}, std::int64_t{4}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(refused(described({1}, {1}), version), HasSubstr("versions 0 to 3"));
  }
  for (const std::int64_t version : {0, 1, 2}) {
    const Tensor tensor = imported(stream(), version);
    ASSERT_TRUE(tensor.queue) << "before version 3 nothing is promised: the legacy default stream's order is taken";
    EXPECT_EQ(tensor.queue->native(), reinterpret_cast<void*>(std::intptr_t{1}));
    EXPECT_FALSE(tensor.ready());
    const Tensor without_order = imported(stream(), version, false);
    EXPECT_FALSE(without_order.queue);
    EXPECT_TRUE(without_order.ready());
  }
  EXPECT_FALSE(imported(std::nullopt, 3).queue);
}

TEST_P(CudaArrayTest, MasksSinceVersionOne) {
  for (const std::int64_t version : {0, 1, 2, 3}) {
    Tensor tensor = described({256}, {1});
    tensor.mask = std::make_shared<const Tensor>(imported(std::nullopt));
    import(&tensor, version);
    EXPECT_EQ(tensor.mask != nullptr, version > 0);
  }
}

TEST_P(CudaArrayTest, Streams) {
  EXPECT_THAT(refused(described({1}, {1}), 3, 0), HasSubstr("ambiguous"));
  EXPECT_THAT(refused(described({1}, {1}), 0, 0), HasSubstr("ambiguous"));
  EXPECT_THAT(refused(described({1}, {1}), 3, -7), HasSubstr("stream -7"));
  for (const std::int64_t number : {std::int64_t{1}, std::int64_t{2}, stream()}) {
    const Tensor tensor = imported(number);
    ASSERT_TRUE(tensor.queue);
    EXPECT_EQ(tensor.queue->native(), reinterpret_cast<void*>(number));
    EXPECT_FALSE(tensor.ready());
  }
}

TEST_P(CudaArrayTest, AMaskLiesOnItsDatasDevice) {
  Tensor tensor = described({64}, {1});
  Tensor mask = described({64}, {1});
  mask.device = {DeviceType::kCuda, 1};
  tensor.mask = std::make_shared<const Tensor>(mask);
  EXPECT_THAT(refused(tensor), HasSubstr("its mask is in memory of cuda:1"));
  mask.device = {DeviceType::kCudaManaged, 0};
  tensor.mask = std::make_shared<const Tensor>(mask);
  import(&tensor);
}

TEST_P(CudaArrayTest, NoDeviceIsOpenedToAskAboutAnothersPointer) {
  if (!on_fake() || devices() < 2) GTEST_SKIP() << "needs a second device, and to see what is retained";
  void* second = nullptr;
  cuda_->run("cuDevicePrimaryCtxRetain", &second, 1);
  cuda_->run("cuCtxPushCurrent_v2", second);
  std::uint64_t there = 0;
  cuda_->run("cuMemAlloc_v2", &there, std::size_t{64});
  cuda_->run("cuCtxPopCurrent_v2", &second);
  {
    device::DriverRegistry drivers;
    drivers.add(drivers_.find("cuda"));
    drivers.context({DeviceType::kCuda, 1});
    const std::uint64_t contexts = cuda_->live().contexts;
    Tensor tensor = made_tensor("int8", {64}, {1}, reinterpret_cast<void*>(there));
    import_cuda_array(&tensor, 3, 1, true, drivers);
    EXPECT_EQ(tensor.device, (Device{DeviceType::kCuda, 1}));
    EXPECT_EQ(cuda_->live().contexts, contexts);
  }
  cuda_->run("cuCtxPushCurrent_v2", second);
  cuda_->run("cuMemFree_v2", there);
  cuda_->run("cuCtxPopCurrent_v2", &second);
  cuda_->run("cuDevicePrimaryCtxRelease_v2", 1);
}

// Order

TEST_P(CudaArrayTest, WorkElsewhereComesAfterTheProducers) {
  slow_down();
  fill('p');
  Tensor tensor = imported(stream());
  const device::Queue mine = context_->make_queue();
  order_on(tensor, *context_, mine);
  EXPECT_EQ(read_on(mine), std::string(256, 'p'));
}

TEST_P(CudaArrayTest, WithoutTheOrderItIsARace) {
  if (!on_fake()) GTEST_SKIP() << "a GPU doesn't say that nobody waited";
  slow_down();
  fill('p');
  Tensor tensor = imported(stream(), 3, false);
  EXPECT_FALSE(tensor.queue);
  const device::Queue mine = context_->make_queue();
  order_on(tensor, *context_, mine);
  EXPECT_THROW(read_on(mine), SystemError);
  expected_faults_ = 1;
}

TEST_P(CudaArrayTest, TheProducersStreamComesAfterTheConsumersWork) {
  slow_down();
  fill('1');
  device::Queue mine = context_->make_queue();
  Tensor made = copy(imported(stream()), {context_, MemoryKind::kDevice, context_, mine});
  fill('2');
  std::string bytes(256, '?');
  context_->copy({.data = bytes.data(), .size = 256, .device = {}, .kind = MemoryKind::kHost, .read_only = false},
                 {.data = made.data, .size = 256, .device = made.device, .kind = made.kind, .read_only = true}, mine);
  device::Event end = context_->record(mine);
  context_->wait(end);
  EXPECT_EQ(bytes, std::string(256, '1'));
}

TEST_P(CudaArrayTest, ThePerThreadStreamOfAnotherThread) {
  slow_down();
  std::optional<Tensor> imported_there;
  std::thread producer([&] {
    cuda_->run("cuCtxPushCurrent_v2", primary_);
    cuda_->run("cuMemsetD8Async", pointer_, static_cast<unsigned char>('t'), std::size_t{256},
               reinterpret_cast<void*>(std::uintptr_t{2}));
    imported_there = imported(2);
    EXPECT_EQ(export_cuda_array(&*imported_there, drivers_), 2);
    void* popped = nullptr;
    cuda_->run("cuCtxPopCurrent_v2", &popped);
  });
  producer.join();
  Tensor shown = *imported_there;
  const CudaStream stream = export_cuda_array(&shown, drivers_);
  EXPECT_EQ(stream, reinterpret_cast<std::intptr_t>(drivers_.default_queue({DeviceType::kCuda, 0}).native()));
  EXPECT_EQ(read_on(*shown.queue), std::string(256, 't'));
  // A stream that can't be named here can't be ordered after the copy: that is waited for.
  const device::Queue mine = context_->make_queue();
  const Tensor made = copy(*imported_there, {context_, MemoryKind::kDevice, context_, mine});
  EXPECT_TRUE(context_->query(made.event));
  EXPECT_FALSE(made.queue->thread_bound());
}

TEST_P(CudaArrayTest, CopiesOnThePerThreadStreamGoWithAnyThread) {
  slow_down();
  const device::Queue own =
      context_->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(std::uintptr_t{2})), nullptr);
  Tensor source = imported(std::nullopt);
  cuda_->run("cuMemsetD8Async", pointer_, static_cast<unsigned char>('c'), std::size_t{256}, own.native());
  auto made = std::make_unique<Tensor>(copy(source, {context_, MemoryKind::kDevice, context_, own}));
  auto fresh = std::make_unique<Tensor>(
      empty(array::parse_element_type("int8"), std::vector<std::int64_t>{256}, context_, MemoryKind::kDevice, own));
  EXPECT_FALSE(made->queue->thread_bound()) << "what lasts is on a queue that any thread may name";
  // Its caller goes on with the copy on the stream that it named.
  std::string bytes(256, '?');
  context_->copy({.data = bytes.data(), .size = 256, .device = {}, .kind = MemoryKind::kHost, .read_only = false},
                 {.data = made->data, .size = 256, .device = made->device, .kind = made->kind, .read_only = true}, own);
  const device::Event read = context_->record(own);
  const device::Queue kept = *made->queue;
  context_->order_after(kept, read);
  std::thread([&] {
    made.reset();
    fresh.reset();
  }).join();
  context_->wait(read);
  EXPECT_EQ(bytes, std::string(256, 'c'));
}

TEST_P(CudaArrayTest, WhatGoesOnItsOwnThreadComesAfterItsOwnStreamsWork) {
  slow_down();
  const device::Queue own =
      context_->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(std::uintptr_t{2})), nullptr);
  auto made = std::make_unique<Tensor>(copy(imported(std::nullopt), {context_, MemoryKind::kDevice, context_, own}));
  cuda_->run("cuMemsetD8Async", reinterpret_cast<std::uint64_t>(made->data), static_cast<unsigned char>('o'),
             std::size_t{256}, own.native());
  made.reset();
  context_->wait(context_->record(own));
}

TEST_P(CudaArrayTest, ImportingWaitsForNothing) {
  if (!on_fake()) GTEST_SKIP() << "how slow a GPU is can't be set";
  slow_down();
  fill('p');
  const Tensor tensor = imported(stream());
  EXPECT_FALSE(context_->query(tensor.pending()));
  EXPECT_EQ(cuda_->calls("cuEventSynchronize") + cuda_->calls("cuStreamSynchronize"), 0u);
}

TEST_P(CudaArrayTest, TheStreamLivesAsLongAsTheOwner) {
  int released = 0;
  Tensor tensor = described({256}, {1});
  tensor.owner = counting_owner(&released);
  import(&tensor, 3, stream());
  const device::Queue queue = *tensor.queue;
  tensor = Tensor();
  EXPECT_EQ(released, 0) << "the queue keeps the object that showed the stream";
}

// What is shown

TEST_P(CudaArrayTest, ShowsTheStreamThatIsEnough) {
  Tensor plain = imported(std::nullopt);
  EXPECT_EQ(export_cuda_array(&plain, drivers_), std::nullopt);
  Tensor ordered = imported(stream());
  EXPECT_EQ(export_cuda_array(&ordered, drivers_), stream());
  Tensor legacy = imported(1);
  EXPECT_EQ(export_cuda_array(&legacy, drivers_), 1);
  Tensor null = imported(1);
  null.queue = device::Queue({DeviceType::kCuda, 0}, device::NativeQueue(), nullptr);
  null.context = nullptr;
  EXPECT_EQ(export_cuda_array(&null, drivers_), 1) << "0 is never shown";
}

TEST_P(CudaArrayTest, WorkOnSeveralStreamsIsJoinedOnTheOneShown) {
  slow_down();
  const device::Queue working = context_->make_queue();
  const device::Queue shown = context_->make_queue();
  Tensor tensor = imported(std::nullopt);
  cuda_->run("cuMemsetD8Async", pointer_, static_cast<unsigned char>('w'), std::size_t{256}, working.native());
  tensor.set_queue(context_, shown);
  tensor.event = context_->record(working);
  EXPECT_EQ(export_cuda_array(&tensor, drivers_), reinterpret_cast<std::intptr_t>(shown.native()));
  EXPECT_EQ(read_on(shown), std::string(256, 'w'));
}

TEST_P(CudaArrayTest, AnEventWithoutAQueueGoesOnTheDefaultOne) {
  slow_down();
  fill('e');
  Tensor tensor = imported(stream());
  tensor.event = tensor.pending();
  tensor.queue.reset();
  const CudaStream shown = export_cuda_array(&tensor, drivers_);
  ASSERT_TRUE(tensor.queue) << "to be kept as long as the stream is shown";
  EXPECT_EQ(tensor.queue->native(), drivers_.default_queue({DeviceType::kCuda, 0}).native());
  EXPECT_EQ(shown, reinterpret_cast<std::intptr_t>(tensor.queue->native()));
  EXPECT_EQ(read_on(*tensor.queue), std::string(256, 'e'));
}

TEST_P(CudaArrayTest, OtherMemoryIsntShown) {
  char here[4] = {};
  Tensor tensor = made_tensor("int8", {4}, {1}, here);
  EXPECT_THAT(message_of<ExportError>([&] { export_cuda_array(&tensor, drivers_); }),
              HasSubstr("copy it to a CUDA device"));
}

TEST_P(CudaArrayTest, AFailedEventIsThrown) {
  Tensor tensor = imported(stream());
  tensor.event = device::Event::failed(std::make_shared<const SystemError>("the kernel before it failed"));
  EXPECT_THROW(export_cuda_array(&tensor, drivers_), SystemError);
}

// Without a driver

TEST_P(CudaArrayTest, WithoutADriverPointerAndStreamAreCarried) {
  const device::DriverRegistry none;
  Tensor tensor = made_tensor("int8", {4}, {1}, reinterpret_cast<void*>(0x1000));
  import_cuda_array(&tensor, 3, 77, true, none);
  EXPECT_EQ(tensor.device, (Device{DeviceType::kCuda, 0}));
  EXPECT_EQ(tensor.data, reinterpret_cast<void*>(0x1000));
  EXPECT_TRUE(tensor.out_of_reach());
  EXPECT_THAT(message_of<ExportError>([&] { tensor.pending(); }), HasSubstr("stream of cuda:0 (77)"))
      << "no protocol that can't carry the stream may hand it on";
  EXPECT_EQ(export_cuda_array(&tensor, none), 77);
  Tensor free = made_tensor("int8", {4}, {1}, reinterpret_cast<void*>(0x1000));
  import_cuda_array(&free, 3, 77, false, none);
  EXPECT_TRUE(free.ready());
  EXPECT_EQ(export_cuda_array(&free, none), std::nullopt);
  Tensor wrong = made_tensor("int8", {4}, {1}, reinterpret_cast<void*>(0x1000));
  EXPECT_THROW(import_cuda_array(&wrong, 3, 0, true, none), InvalidDataError);
  for (const std::int64_t stream : {std::int64_t{0}, std::int64_t{-7}}) {
    import_cuda_array(&wrong, 3, stream, false, none);
    EXPECT_TRUE(wrong.ready()) << "the stream is ignored, so it can't be wrong";
  }
}

CROSSDOCK_ON_CUDA(CudaArrayTest);

}  // namespace
}  // namespace crossdock::exchange
