#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "support/sycl.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::kMemoryKinds;
using crossdock::testing::message_of;
using crossdock::testing::Sycl;
using ::testing::HasSubstr;

const char* name_of(MemoryKind kind) {
  return kind == MemoryKind::kDevice ? "device" : kind == MemoryKind::kHost ? "host" : "shared";
}

class SyclMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    driver_ = crossdock::testing::make_sycl_target(why_not);
    if (driver_ == nullptr) GTEST_SKIP() << why_not;
    device_ = driver_->devices().front();
    context_ = driver_->open(device_);
    queue_ = std::make_unique<Queue>(context_->make_queue());
    sycl_ = std::make_unique<Sycl>();
    their_context_ = sycl_->context();
  }
  /// A queue in a context of its own.
  Queue elsewhere() {
    return driver_->make_queue({.device = device_, .native_context = NativeContext(their_context_.get())});
  }
  static BufferRef host(std::string& text) { return {.data = text.data(), .size = text.size(), .device = {}}; }
  BufferRef usm(const std::shared_ptr<void>& memory, std::uint64_t size, MemoryKind kind) {
    return {.data = memory.get(), .size = size, .device = device_, .kind = kind};
  }

  std::shared_ptr<SyclDriver> driver_;
  Device device_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Sycl> sycl_;
  std::shared_ptr<void> their_context_;
};

TEST_F(SyclMemory, BelongsToTheContextOfItsQueue) {
  const Queue other = elsewhere();
  for (const MemoryKind kind : kMemoryKinds) {
    const Buffer here = context_->allocate(64, kind, Sharing::kPrivate, *queue_);
    const Buffer there = context_->allocate(64, kind, Sharing::kPrivate, other);
    EXPECT_TRUE(context_->accessible(here.ref(), *queue_));
    EXPECT_FALSE(context_->accessible(here.ref(), other));
    EXPECT_TRUE(context_->accessible(there.ref(), other));
    EXPECT_FALSE(context_->accessible(there.ref(), *queue_));
    EXPECT_EQ(context_->describe(here.data()).kind, kind);
    EXPECT_EQ(context_->describe(there.data()).kind, kind);
    const auto equal = [&](void* context, const Queue& queue) {
      return context != nullptr &&
             sycl_->call<bool>("DPCTLContext_AreEq", context, driver_->queue_info(queue).context.get());
    };
    EXPECT_TRUE(equal(context_->describe(here.data()).context, *queue_));
    EXPECT_TRUE(equal(context_->describe(there.data()).context, other));
  }
}

TEST_F(SyclMemory, OfTheHostsOwnIsntTheQueues) {
  std::string bytes = "plain";
  EXPECT_FALSE(context_->accessible(host(bytes), *queue_));
}

TEST_F(SyclMemory, OfOneContextIsntCopiedInAnother) {
  const Queue other = elsewhere();
  std::string text = "over there";
  std::string seen(text.size(), '?');
  const Buffer there = context_->allocate(text.size(), MemoryKind::kDevice, Sharing::kPrivate, other);
  context_->copy(there.ref(), host(text), other);
  context_->wait(context_->record(other));
  const std::string said = message_of<UnsupportedError>([&] { context_->copy(host(seen), there.ref(), *queue_); });
  EXPECT_THAT(said, HasSubstr("contexts share no device memory"));
  EXPECT_THAT(said, HasSubstr("copy it to host memory"));
  EXPECT_THROW(context_->copy(there.ref(), host(seen), *queue_), UnsupportedError);
  context_->copy(host(seen), there.ref(), other);
  context_->wait(context_->record(other));
  EXPECT_EQ(seen, text);
}

TEST_F(SyclMemory, ThatTheHostReachesIsCopiedFromAnyContext) {
  const Queue other = elsewhere();
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kShared}) {
    std::string text = "for everybody";
    const Buffer there = context_->allocate(text.size(), kind, Sharing::kPrivate, other);
    context_->copy(there.ref(), host(text), other);
    context_->wait(context_->record(other));
    const Buffer here = context_->allocate(text.size(), MemoryKind::kDevice, Sharing::kPrivate, *queue_);
    context_->copy(here.ref(), there.ref(), *queue_);
    std::string seen(text.size(), '?');
    context_->copy(host(seen), here.ref(), *queue_);
    context_->wait(context_->record(*queue_));
    EXPECT_EQ(seen, text);
  }
}

TEST_F(SyclMemory, OfOthersIsDescribed) {
  const auto native = sycl_->queue();
  for (const MemoryKind kind : kMemoryKinds) {
    const auto memory = sycl_->memory(name_of(kind), 4096, native.get());
    const PointerInfo info = context_->describe(static_cast<std::byte*>(memory.get()) + 100);
    EXPECT_EQ(info.device, device_);
    EXPECT_EQ(info.kind, kind);
    EXPECT_EQ(info.managed, kind == MemoryKind::kShared);
    EXPECT_EQ(info.base, nullptr);
    EXPECT_EQ(info.size, 0u);
  }
}

TEST_F(SyclMemory, OfOursIsKnownFromItsStartToItsEnd) {
  const Buffer buffer = context_->allocate(1000, MemoryKind::kShared, Sharing::kPrivate, *queue_);
  const auto other_context = driver_->open(device_);
  for (const std::uint64_t at : {0, 500, 999}) {
    const PointerInfo info = other_context->describe(static_cast<std::byte*>(buffer.data()) + at);
    EXPECT_EQ(info.base, buffer.data());
    EXPECT_EQ(info.size, 1000u);
  }
}

TEST_F(SyclMemory, OfOthersIsAdoptedWithItsDeleter) {
  const auto native = sycl_->queue();
  for (const MemoryKind kind : kMemoryKinds) {
    auto memory = sycl_->memory(name_of(kind), 5, native.get());
    const std::weak_ptr<void> watched = memory;
    const BufferRef ref = usm(memory, 5, kind);
    Buffer buffer = context_->adopt(ref, std::move(memory));
    std::string text = "taken";
    std::string seen(5, '?');
    context_->copy(buffer.ref(), host(text), *queue_);
    context_->copy(host(seen), buffer.ref(), *queue_);
    context_->free(std::move(buffer), *queue_);
    context_->wait(context_->record(*queue_));
    EXPECT_EQ(seen, text);
    EXPECT_TRUE(watched.expired());
  }
}

TEST_F(SyclMemory, IsAdoptedOnlyAsWhatItIs) {
  const auto native = sycl_->queue();
  const auto memory = sycl_->memory("device", 64, native.get());
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->adopt(usm(memory, 64, MemoryKind::kShared), nullptr); }),
              HasSubstr("of another kind"));
  BufferRef far = usm(memory, 64, MemoryKind::kDevice);
  far.device.id = 5;
  EXPECT_THROW(context_->adopt(far, nullptr), InvalidArgumentError);
  std::string plain(64, 'p');
  const std::shared_ptr<void> bytes(plain.data(), [](void*) {});
  EXPECT_THROW(context_->adopt(usm(bytes, 64, MemoryKind::kShared), nullptr), InvalidArgumentError);

  // Of a context that nobody has a queue of, it can't be told from other memory.
  const auto their_queue = sycl_->queue(0, their_context_.get());
  const auto theirs = sycl_->memory("device", 64, their_queue.get());
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->adopt(usm(theirs, 64, MemoryKind::kDevice), nullptr); }),
              HasSubstr("wrap a queue of that context first"));
  const Queue queue = driver_->wrap_queue(NativeQueue(their_queue.get()));
  EXPECT_EQ(context_->adopt(usm(theirs, 64, MemoryKind::kDevice), nullptr).data(), theirs.get());
}

TEST_F(SyclMemory, WaitsForTheQueueThatItIsFreedOn) {
  constexpr std::size_t kSize = 32 << 20;
  std::string text(kSize, 'q');
  bool done = false;
  bool dropped = false;
  Event end;
  auto native = context_->allocate(kSize, MemoryKind::kDevice, Sharing::kPrivate, *queue_);
  const BufferRef ref = native.ref();
  std::shared_ptr<void> owner(nullptr, [&, memory = native.release()](void*) {
    dropped = true;
    done = sycl_->call<int>("DPCTLEvent_GetCommandExecutionStatus", end.native()) == 3;
  });
  Buffer buffer = context_->adopt(ref, std::move(owner));
  for (int i = 0; i < 3; ++i) context_->copy(buffer.ref(), host(text), *queue_);
  end = context_->record(*queue_);
  context_->free(std::move(buffer), *queue_);
  EXPECT_FALSE(dropped) << "its queue has 96 MiB to copy";
  context_->wait(context_->record(*queue_));
  context_->query(end);
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(done);
}

TEST_F(SyclMemory, IsGivenBackByLaterVerbs) {
  std::string bytes = "held";
  int dropped = 0;
  const auto adopted = [&] {
    return context_->adopt(host(bytes), std::shared_ptr<void>(bytes.data(), [&](void*) { ++dropped; }));
  };
  const Queue other = context_->make_queue();
  for (const Queue& queue : {*queue_, other, *queue_}) context_->free(adopted(), queue);
  EXPECT_EQ(dropped, 0) << "free() may be called by a host task, which must not ask SYCL";
  for (const Queue& queue : {*queue_, other}) context_->wait(context_->record(queue));
  EXPECT_EQ(dropped, 3);
}

TEST_F(SyclMemory, IsGivenBackWithTheContextAtTheLatest) {
  std::string from(1 << 20, 'x');
  std::string to(from.size(), '?');
  bool right = false;
  Buffer adopted = context_->adopt(host(to), std::shared_ptr<void>(to.data(), [&](void*) { right = to == from; }));
  context_->copy(adopted.ref(), host(from), *queue_);
  context_->free(std::move(adopted), *queue_);
  context_.reset();
  EXPECT_TRUE(right) << "it didn't go, or went under the copy";
}

TEST_F(SyclMemory, IsntShared) {
  EXPECT_THAT(
      message_of<UnsupportedError>([&] { context_->allocate(64, MemoryKind::kDevice, Sharing::kExportable, *queue_); }),
      HasSubstr("sycl"));
}

}  // namespace
}  // namespace crossdock::device
