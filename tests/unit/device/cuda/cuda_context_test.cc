#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/cuda.h"
#include "device/memory_handle.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::CudaTargetTest;
using crossdock::testing::kMemoryKinds;
using crossdock::testing::message_of;
using ::testing::HasSubstr;

class CudaContext : public CudaTargetTest {
 protected:
  void SetUp() override {
    CudaTargetTest::SetUp();
    if (IsSkipped()) return;
    context_ = driver_->open(driver_->devices().front());
    queue_ = std::make_unique<Queue>(context_->make_queue());
  }
  void TearDown() override {
    queue_.reset();
    context_.reset();
    driver_.reset();
    if (cuda_ == nullptr || !on_fake()) return;
    crossdock::testing::expect_no_faults(*cuda_);
    crossdock::testing::expect_nothing_alive(*cuda_);
  }

  static BufferRef host(std::string& bytes) {
    return {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
  }
  Buffer allocate(std::uint64_t size, MemoryKind kind = MemoryKind::kDevice, Sharing sharing = Sharing::kPrivate) {
    return context_->allocate(size, kind, sharing, *queue_);
  }
  void finish(Context& context, const Queue& queue) {
    Event event = context.record(queue);
    context.wait(event);
  }
  void finish() { finish(*context_, *queue_); }
  Buffer upload(std::string bytes, MemoryKind kind = MemoryKind::kDevice) {
    Buffer buffer = allocate(bytes.size(), kind);
    context_->copy(buffer.ref(), host(bytes), *queue_);
    finish();
    return buffer;
  }
  std::string download(const BufferRef& from) {
    std::string bytes(from.size, '?');
    context_->copy(host(bytes), from, *queue_);
    finish();
    return bytes;
  }
  bool primary_active(int device = 0) const {
    unsigned flags = 0;
    int active = -1;
    cuda_->run("cuDevicePrimaryCtxGetState", device, &flags, &active);
    return active == 1;
  }

  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
};

CROSSDOCK_ON_CUDA(CudaContext);

TEST_P(CudaContext, OpensTheDeviceThatEachOfItsMemoryTypesNames) {
  for (const DeviceType type : {DeviceType::kCuda, DeviceType::kCudaHost, DeviceType::kCudaManaged}) {
    EXPECT_TRUE(driver_->handles(type));
    EXPECT_EQ(driver_->open({.type = type, .id = 0})->device(), (Device{.type = DeviceType::kCuda, .id = 0}));
  }
  EXPECT_THAT(message_of<NotFoundError>([&] { driver_->open({.type = DeviceType::kCuda, .id = 1000}); }),
              HasSubstr("cuda:1000"));
  EXPECT_THROW(driver_->open({.type = DeviceType::kCuda, .id = -1}), NotFoundError);
  EXPECT_FALSE(driver_->handles(DeviceType::kCpu));
  EXPECT_THROW(driver_->open(Device{}), NotFoundError);
}

TEST_P(CudaContext, RetainsThePrimaryContextUntilTheLastHolderGoes) {
  EXPECT_TRUE(primary_active());
  Buffer buffer = allocate(64);
  finish();
  Event event = context_->record(*queue_);
  Queue queue = *queue_;
  queue_.reset();
  context_.reset();
  EXPECT_TRUE(primary_active());
  buffer = Buffer();
  EXPECT_TRUE(primary_active());
  event = Event();
  EXPECT_TRUE(primary_active());
  queue = Queue(Device{}, NativeQueue(), nullptr);
  EXPECT_FALSE(primary_active());
}

TEST_P(CudaContext, LeavesTheThreadsCurrentContextAsItWas) {
  void* foreign = cuda_->make_context(0);
  std::string bytes(64, 'x');
  const auto each_verb = [&](auto check) {
    const Queue queue = context_->make_queue();
    check("make_queue");
    for (const MemoryKind kind : kMemoryKinds) {
      Buffer buffer = context_->allocate(64, kind, Sharing::kPrivate, queue);
      check("allocate");
      context_->copy(buffer.ref(), host(bytes), queue);
      check("copy");
      context_->describe(buffer.data());
      check("describe");
      Event event = context_->record(queue);
      check("record");
      context_->query(event);
      check("query");
      context_->order_after(*queue_, event);
      check("order_after");
      context_->wait(event);
      check("wait");
      context_->adopt(buffer.ref(), nullptr);
      check("adopt");
      event = Event();
      check("an event's end");
      if (kind == MemoryKind::kShared) {
        buffer = Buffer();
        check("a buffer's end");
      } else {
        context_->free(std::move(buffer), queue);
        check("free");
      }
    }
    const Buffer shared = context_->allocate(64, MemoryKind::kDevice, Sharing::kExportable, queue);
    context_->import_memory(context_->export_memory(shared.ref()), "here");
    check("handles");
    EXPECT_THROW(context_->allocate(std::uint64_t{1} << 47, MemoryKind::kDevice, Sharing::kPrivate, queue),
                 ResourceError);
    check("a failure");
    EXPECT_NO_THROW(context_->wrap_queue(NativeQueue(queue.native()), nullptr));
    check("wrap_queue");
    driver_->open(context_->device());
    check("open");
  };
  each_verb([&](const char* verb) { EXPECT_EQ(cuda_->current(), foreign) << verb; });
  cuda_->run("cuCtxDestroy_v2", foreign);
  ASSERT_EQ(cuda_->current(), nullptr);
  each_verb([&](const char* verb) { EXPECT_EQ(cuda_->current(), nullptr) << verb; });
  finish();
}

TEST_P(CudaContext, WorksInAContextThatItIsGiven) {
  void* foreign = cuda_->make_context(0);
  void* stream = cuda_->make_stream();
  {
    const auto context = driver_->open(context_->device(), NativeContext(foreign));
    const Queue queue = context->wrap_queue(NativeQueue(stream), nullptr);
    const Buffer buffer = context->allocate(8, MemoryKind::kDevice, Sharing::kExportable, queue);
    std::string out = "in there";
    std::string in(8, '?');
    context->copy(buffer.ref(), host(out), queue);
    context->copy(host(in), buffer.ref(), queue);
    finish(*context, queue);
    EXPECT_EQ(in, out);
    EXPECT_EQ(context->describe(buffer.data()).context, foreign);
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->wrap_queue(NativeQueue(stream), nullptr); }),
                HasSubstr("of another context"));
  }
  cuda_->run("cuStreamDestroy_v2", stream);
  if (driver_->devices().size() > 1) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { driver_->open(driver_->devices()[1], NativeContext(foreign)); }),
                HasSubstr("another device"));
  }
  cuda_->run("cuCtxDestroy_v2", foreign);
}

TEST_P(CudaContext, HasThreeTypesOfMemory) {
  for (const MemoryKind kind : kMemoryKinds) {
    const DeviceType type = kind == MemoryKind::kDevice ? DeviceType::kCuda
                            : kind == MemoryKind::kHost ? DeviceType::kCudaHost
                                                        : DeviceType::kCudaManaged;
    const Buffer buffer = upload("0123456789", kind);
    EXPECT_EQ(buffer.device(), (Device{.type = type, .id = 0}));
    const PointerInfo info = context_->describe(static_cast<std::byte*>(buffer.data()) + 4);
    EXPECT_EQ(info.device, buffer.device());
    EXPECT_EQ(info.kind, kind);
    EXPECT_EQ(info.address, static_cast<std::byte*>(buffer.data()) + 4);
    EXPECT_EQ(info.host_accessible, kind != MemoryKind::kDevice);
    EXPECT_EQ(info.managed, kind == MemoryKind::kShared);
    EXPECT_EQ(info.base, buffer.data());
    EXPECT_GE(info.size, 10u);
    if (kind != MemoryKind::kDevice) {
      EXPECT_EQ(std::string(static_cast<const char*>(buffer.data()), 10), "0123456789");
    }
    EXPECT_EQ(download(buffer.ref()), "0123456789");
  }
}

TEST_P(CudaContext, CopiesBetweenAnotherDevicesMemoryAndPinnedOrManagedMemory) {
  if (driver_->devices().size() < 2) GTEST_SKIP() << "one device";
  const auto second = driver_->open(driver_->devices()[1]);
  const Queue theirs = second->make_queue();
  const Buffer there = second->allocate(8, MemoryKind::kDevice, Sharing::kPrivate, theirs);
  std::string out = "far away";
  second->copy(there.ref(), host(out), theirs);
  finish(*second, theirs);
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kShared}) {
    const Buffer here = upload("????????", kind);
    context_->copy(here.ref(), there.ref(), *queue_);
    EXPECT_EQ(download(here.ref()), out);
    // And by the other device's own queue, from its memory to what is this one's.
    second->copy(there.ref(), here.ref(), theirs);
    finish(*second, theirs);
    if (kind == MemoryKind::kHost) {
      EXPECT_EQ(std::string(static_cast<const char*>(here.data()), 8), out);
    }
  }
  std::string neither(8, '?');
  EXPECT_THROW(context_->copy(host(neither), there.ref(), *queue_), InvalidArgumentError);
}

TEST_P(CudaContext, MemoryThatCudaDoesntKnowIsTheHosts) {
  int local = 0;
  for (const void* pointer : {static_cast<const void*>(&local), static_cast<const void*>(nullptr)}) {
    const PointerInfo info = context_->describe(pointer);
    EXPECT_EQ(info.device, Device{});
    EXPECT_EQ(info.kind, MemoryKind::kHost);
    EXPECT_EQ(info.address, pointer);
    EXPECT_TRUE(info.host_accessible);
    EXPECT_FALSE(info.managed);
    EXPECT_EQ(info.context, nullptr);
    EXPECT_EQ(info.base, nullptr);
  }
}

TEST_P(CudaContext, RegisteredHostMemoryIsFoundWhereTheDeviceHasIt) {
  std::string bytes(8192, 'r');
  constexpr unsigned kDeviceMap = 2;
  cuda_->run("cuDevicePrimaryCtxRetain", std::make_unique<void*>().get(), 0);
  void* foreign = cuda_->make_context(0);
  cuda_->run("cuMemHostRegister_v2", static_cast<void*>(bytes.data()), bytes.size(), kDeviceMap);
  std::uint64_t expected = 0;
  cuda_->run("cuMemHostGetDevicePointer_v2", &expected, static_cast<void*>(bytes.data()), 0u);
  {
    const auto context = driver_->open(context_->device(), NativeContext(foreign));
    const PointerInfo info = context->describe(bytes.data() + 5);
    EXPECT_EQ(info.device, (Device{.type = DeviceType::kCudaHost, .id = 0}));
    EXPECT_EQ(info.kind, MemoryKind::kHost);
    EXPECT_TRUE(info.host_accessible);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(info.address), expected + 5);
    if (on_fake()) {
      EXPECT_NE(info.address, bytes.data() + 5);
    }
  }
  cuda_->run("cuMemHostUnregister", static_cast<void*>(bytes.data()));
  cuda_->run("cuCtxDestroy_v2", foreign);
  cuda_->run("cuDevicePrimaryCtxRelease_v2", 0);
}

TEST_P(CudaContext, AdoptsOnlyWhatCudaSaysIsOfTheDevice) {
  int dropped = 0;
  const auto owner = [&](void* data) { return std::shared_ptr<void>(data, [&](void*) { ++dropped; }); };
  std::string bytes = "host";
  BufferRef wrong = host(bytes);
  wrong.device = context_->device();
  wrong.kind = MemoryKind::kDevice;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->adopt(wrong, owner(wrong.data)); }),
              HasSubstr("CUDA says that it is memory of cpu"));
  EXPECT_EQ(dropped, 1);
  const Buffer ours = allocate(16);
  EXPECT_EQ(context_->adopt(ours.ref(), owner(ours.data())).data(), ours.data());
  EXPECT_EQ(dropped, 2);
  BufferRef managed = ours.ref();
  managed.device.type = DeviceType::kCudaManaged;
  EXPECT_THROW(context_->adopt(managed, nullptr), InvalidArgumentError);
  BufferRef elsewhere = ours.ref();
  elsewhere.device.id = 1000;
  EXPECT_THROW(context_->adopt(elsewhere, nullptr), InvalidArgumentError);
}

TEST_P(CudaContext, HoldsAdoptedMemoryUntilTheQueuesWorkIsDone) {
  slow_down(100'000);
  const Buffer target = allocate(4);
  bool dropped = false;
  std::string bytes = "held";
  Buffer adopted = context_->adopt(host(bytes), std::shared_ptr<void>(bytes.data(), [&](void*) { dropped = true; }));
  context_->copy(target.ref(), adopted.ref(), *queue_);
  context_->free(std::move(adopted), *queue_);
  if (on_fake()) {
    EXPECT_FALSE(dropped);
  }
  slow_down(0);
  EXPECT_EQ(download(target.ref()), "held");
  EXPECT_TRUE(dropped);
}

TEST_P(CudaContext, TheEndOfItAndItsDriverWaitsForWhatFreeStillHolds) {
  slow_down(100'000);
  std::string from = "late";
  std::string to = "????";
  bool right = false;
  Buffer adopted = context_->adopt(host(to), std::shared_ptr<void>(to.data(), [&](void*) { right = to == "late"; }));
  context_->copy(adopted.ref(), host(from), *queue_);
  context_->free(std::move(adopted), *queue_);
  context_.reset();
  if (on_fake()) {
    EXPECT_FALSE(right);
  }
  driver_.reset();
  EXPECT_TRUE(right);
  slow_down(0);
}

TEST_P(CudaContext, WrapsTheDefaultStreams) {
  void* const null = nullptr;
  EXPECT_EQ(context_->wrap_queue(NativeQueue(null), nullptr).native(), reinterpret_cast<void*>(1));
  for (const std::uintptr_t handle : {1, 2}) {
    const Queue queue = context_->wrap_queue(NativeQueue(reinterpret_cast<void*>(handle)), nullptr);
    EXPECT_EQ(queue.native(), reinterpret_cast<void*>(handle));
    Buffer buffer = context_->allocate(7, MemoryKind::kDevice, Sharing::kPrivate, queue);
    std::string out = "default";
    std::string in(7, '?');
    context_->copy(buffer.ref(), host(out), queue);
    context_->copy(host(in), buffer.ref(), queue);
    context_->free(std::move(buffer), queue);
    finish(*context_, queue);
    EXPECT_EQ(in, out);
  }
}

TEST_P(CudaContext, EventsArePointersToCudasHandles) {
  Event event = context_->record(*queue_);
  ASSERT_NE(event.native(), nullptr);
  void* handle = *static_cast<void**>(event.native());
  EXPECT_EQ(cuda_->call("cuEventSynchronize", handle), 0);
  EXPECT_TRUE(context_->query(event));
  const Event same = context_->wrap_event(NativeEvent(event.native()), nullptr);
  EXPECT_EQ(same.native(), event.native());
  EXPECT_NO_THROW(context_->order_after(*queue_, same));
  EXPECT_NO_THROW(context_->wait(same));
  EXPECT_TRUE(context_->query(context_->wrap_event(NativeEvent(), nullptr)));
  finish();
}

TEST_P(CudaContext, CopiesBetweenDevices) {
  if (driver_->devices().size() < 2) GTEST_SKIP() << "one device only";
  const auto other = driver_->open(driver_->devices()[1]);
  const Queue other_queue = other->make_queue();
  const Buffer here = upload("peer to peer");
  const Buffer there = other->allocate(12, MemoryKind::kDevice, Sharing::kPrivate, other_queue);
  finish(*other, other_queue);
  context_->copy(there.ref(), here.ref(), *queue_);
  Event copied = context_->record(*queue_);
  other->order_after(other_queue, copied);
  std::string in(12, '?');
  other->copy(host(in), there.ref(), other_queue);
  finish(*other, other_queue);
  EXPECT_EQ(in, "peer to peer");
  // Neither side is this device's: somebody meant another context.
  EXPECT_THROW(context_->copy(host(in), there.ref(), *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(there.ref().slice(0, 4), there.ref().slice(4, 4), *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(here.ref(), there.ref(), other_queue), InvalidArgumentError);
  EXPECT_THROW(context_->adopt(there.ref(), nullptr), InvalidArgumentError);
}

TEST_P(CudaContext, RefusesHandlesOfOtherDevicesAndOfMemoryThatIsGone) {
  Buffer buffer = allocate(64, MemoryKind::kDevice, Sharing::kExportable);
  const auto copy_of = [](const MemoryHandle& handle) {
    MemoryHandle copy;
    copy.driver = handle.driver;
    copy.opaque = handle.opaque;
    copy.offset = handle.offset;
    copy.size = handle.size;
    return copy;
  };
  const MemoryHandle handle = context_->export_memory(buffer.ref());
  EXPECT_FALSE(handle.descriptor);
  EXPECT_EQ(context_->import_memory(copy_of(handle), "here").data(), buffer.data());
  if (driver_->devices().size() > 1) {
    const auto other = driver_->open(driver_->devices()[1]);
    EXPECT_THAT(message_of<ProtocolError>([&] { other->import_memory(copy_of(handle), "here"); }),
                HasSubstr("another device"));
    EXPECT_THROW(other->export_memory(buffer.ref()), UnsupportedError);
  }
  MemoryHandle spoiled = copy_of(handle);
  spoiled.opaque.front() ^= std::byte{1};
  EXPECT_THROW(context_->import_memory(std::move(spoiled), "here"), ProtocolError);
  MemoryHandle longer = copy_of(handle);
  longer.opaque[64] = std::byte{128};  // the size
  longer.size = 128;
  EXPECT_THROW(context_->import_memory(std::move(longer), "here"), ProtocolError);
  finish();
  const BufferRef gone = buffer.ref();
  buffer = Buffer();
  EXPECT_THROW(context_->import_memory(copy_of(handle), "here"), ProtocolError);
  EXPECT_THROW(context_->export_memory(gone), UnsupportedError);
}

TEST_P(CudaContext, BelongsToTheProcessThatStartedIt) {
  Buffer buffer = allocate(64);
  Event event = context_->record(*queue_);
  finish();
  const int status = crossdock::testing::run_in_child([&] {
    const auto expect_fork_error = [](auto verb) {
      try {
        verb();
      } catch (const ForkError&) {
        return;
      }
      ::_exit(1);
    };
    expect_fork_error([&] { driver_->devices(); });
    expect_fork_error([&] { driver_->open(context_->device()); });
    expect_fork_error([&] { driver_->current_context(); });
    expect_fork_error([&] { driver_->context_of_queue(NativeQueue(context_.get())); });
    expect_fork_error([&] { allocate(8); });
    expect_fork_error([&] { context_->describe(buffer.data()); });
    expect_fork_error([&] { context_->make_queue(); });
    expect_fork_error([&] { context_->wait(event); });
    // What is dropped here is the parent's still.
    const std::uint64_t calls = on_fake() ? cuda_->calls("cuCtxGetCurrent") : 0;
    buffer = Buffer();
    event = Event();
    queue_.reset();
    context_.reset();
    driver_.reset();
    if (on_fake() && cuda_->calls("cuCtxGetCurrent") != calls) ::_exit(2);
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(context_->query(event));
  EXPECT_EQ(download(buffer.ref()).size(), 64u);
}

}  // namespace
}  // namespace crossdock::device
