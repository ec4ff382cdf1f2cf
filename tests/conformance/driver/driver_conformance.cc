#include "conformance/driver/driver_conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/device/memory.h"
#include "device/memory_handle.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {

using crossdock::testing::kMemoryKinds;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using ::testing::HasSubstr;

namespace {

bool has(const std::vector<MemoryKind>& kinds, MemoryKind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

void DriverConformance::SetUp() {
  driver_ = quirks().make();
  if (driver_ == nullptr && quirks().optional) GTEST_SKIP() << "this machine has no device for " << quirks().name;
  ASSERT_NE(driver_, nullptr);
  ASSERT_FALSE(driver_->devices().empty());
  context_ = driver_->open(driver_->devices().front());
  queue_ = std::make_unique<Queue>(context_->make_queue());
}

BufferRef DriverConformance::host(std::string& bytes) {
  return {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
}

void DriverConformance::finish() {
  Event event = context_->record(*queue_);
  context_->wait(event);
}

void DriverConformance::upload(const BufferRef& to, std::string bytes) {
  context_->copy(to, host(bytes).as_read_only(), *queue_);
  finish();
}

std::string DriverConformance::download(const BufferRef& from) {
  std::string bytes(from.size, '?');
  context_->copy(host(bytes), from, *queue_);
  finish();
  return bytes;
}

// The driver

TEST_P(DriverConformance, SaysWhoItIs) {
  EXPECT_FALSE(driver_->name().empty());
  EXPECT_FALSE(driver_->version().empty());
  EXPECT_EQ(context_->driver_name(), driver_->name());
  for (const Device& device : driver_->devices()) {
    EXPECT_TRUE(driver_->handles(device.type));
    EXPECT_EQ(driver_->open(device)->device(), device);
  }
}

TEST_P(DriverConformance, OpensNoDeviceThatIsntThere) {
  const Device unknown{.type = static_cast<DeviceType>(77), .id = 0};
  EXPECT_FALSE(driver_->handles(unknown.type));
  EXPECT_THAT(message_of<NotFoundError>([&] { driver_->open(unknown); }), HasSubstr("device type 77"));
}

// Memory

TEST_P(DriverConformance, AllocatesTheKindsThatItSays) {
  for (const MemoryKind kind : kMemoryKinds) {
    if (!has(quirks().kinds, kind)) {
      EXPECT_THAT(message_of<UnsupportedError>([&] { allocate(64, kind); }), HasSubstr(std::string(driver_->name())));
      continue;
    }
    const Buffer buffer = allocate(1000, kind);
    EXPECT_NE(buffer.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size(), 1000u);
    EXPECT_EQ(buffer.device(), device_of(kind));
    EXPECT_EQ(buffer.ref().kind, kind);
    EXPECT_FALSE(buffer.read_only());
  }
}

TEST_P(DriverConformance, NoBytesAreNoMemory) {
  for (const MemoryKind kind : quirks().kinds) {
    Buffer buffer = allocate(0, kind);
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_EQ(buffer.size(), 0u);
    context_->free(std::move(buffer), *queue_);
  }
}

TEST_P(DriverConformance, TooMuchMemoryIsAnError) {
  for (const MemoryKind kind : quirks().kinds) {
    EXPECT_THROW(allocate(std::uint64_t{1} << 62, kind), ResourceError);
    EXPECT_THROW(allocate(UINT64_MAX, kind), ResourceError);
  }
  EXPECT_EQ(download(allocate(4, quirks().kinds.front()).ref()).size(), 4u);
}

TEST_P(DriverConformance, CopiesBetweenEveryTwoKindsOfMemory) {
  const std::string text = "between here and there";
  for (const MemoryKind from : quirks().kinds) {
    for (const MemoryKind to : quirks().kinds) {
      const Buffer source = allocate(text.size(), from);
      const Buffer target = allocate(text.size(), to);
      upload(source.ref(), text);
      context_->copy(target.ref(), source.ref(), *queue_);
      EXPECT_EQ(download(target.ref()), text);
    }
  }
}

TEST_P(DriverConformance, CopiesPartsAndLeavesTheRest) {
  const Buffer buffer = allocate(10, quirks().kinds.front());
  upload(buffer.ref(), "0123456789");
  upload(buffer.ref().slice(3, 4), "abcd");
  EXPECT_EQ(download(buffer.ref()), "012abcd789");
  context_->copy(buffer.ref().slice(0, 0), buffer.ref().slice(5, 0), *queue_);
  EXPECT_EQ(download(buffer.ref()), "012abcd789");
}

TEST_P(DriverConformance, RefusesCopiesThatCantBeRight) {
  const Buffer a = allocate(16, quirks().kinds.front());
  const Buffer b = allocate(16, quirks().kinds.front());
  upload(a.ref(), std::string(16, 'a'));
  EXPECT_THROW(context_->copy(a.ref().as_read_only(), b.ref(), *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(a.ref(), b.ref().slice(0, 8), *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(a.ref().slice(0, 8), a.ref().slice(4, 8), *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(a.ref().slice(4, 8), a.ref().slice(0, 8), *queue_), InvalidArgumentError);
  BufferRef nowhere = b.ref();
  nowhere.data = nullptr;
  EXPECT_THROW(context_->copy(a.ref(), nowhere, *queue_), InvalidArgumentError);
  BufferRef elsewhere = b.ref();
  elsewhere.device = {.type = static_cast<DeviceType>(77), .id = 0};
  EXPECT_THROW(context_->copy(a.ref(), elsewhere, *queue_), InvalidArgumentError);
  EXPECT_THROW(context_->copy(elsewhere, a.ref(), *queue_), InvalidArgumentError);
  EXPECT_EQ(download(a.ref()), std::string(16, 'a'));
}

TEST_P(DriverConformance, NeighboursMayBeCopiedToEachOther) {
  const Buffer buffer = allocate(8, quirks().kinds.front());
  upload(buffer.ref(), "abcd....");
  context_->copy(buffer.ref().slice(4, 4), buffer.ref().slice(0, 4), *queue_);
  EXPECT_EQ(download(buffer.ref()), "abcdabcd");
}

TEST_P(DriverConformance, RefusesAQueueOfAnotherDevice) {
  const Queue foreign({.type = static_cast<DeviceType>(77), .id = 0}, NativeQueue(), nullptr);
  const Buffer buffer = allocate(8, quirks().kinds.front());
  const Event event = context_->record(*queue_);
  EXPECT_THROW(context_->allocate(8, quirks().kinds.front(), Sharing::kPrivate, foreign), InvalidArgumentError);
  Buffer kept = allocate(8, quirks().kinds.front());
  const void* const memory = kept.data();
  EXPECT_THROW(context_->free(std::move(kept), foreign), InvalidArgumentError);
  EXPECT_EQ(kept.data(), memory) << "who can't free it that way still has it";  // NOLINT(bugprone-use-after-move)
  upload(kept.ref(), "and uses");
  EXPECT_THROW(context_->copy(buffer.ref().slice(0, 4), buffer.ref().slice(4, 4), foreign), InvalidArgumentError);
  EXPECT_THROW(context_->order_after(foreign, event), InvalidArgumentError);
  EXPECT_THROW(context_->record(foreign), InvalidArgumentError);
}

TEST_P(DriverConformance, AdoptedMemoryGoesWithItsDeleter) {
  std::string bytes = "somebody else's";
  int deleted = 0;
  {
    const auto owner = [&] { return std::shared_ptr<void>(bytes.data(), [&](void*) { ++deleted; }); };
    Buffer buffer = context_->adopt(host(bytes).as_read_only(), owner());
    EXPECT_EQ(buffer.data(), bytes.data());
    EXPECT_TRUE(buffer.read_only());
    EXPECT_EQ(download(buffer.ref()), bytes);
    EXPECT_EQ(deleted, 0);
    context_->free(std::move(buffer), *queue_);
    finish();
    EXPECT_EQ(deleted, 1);
    BufferRef elsewhere = host(bytes);
    elsewhere.device = {.type = static_cast<DeviceType>(77), .id = 0};
    EXPECT_THROW(context_->adopt(elsewhere, owner()), InvalidArgumentError);
    EXPECT_EQ(deleted, 2);
  }
  EXPECT_EQ(deleted, 2);
}

TEST_P(DriverConformance, BuffersOutliveTheirContext) {
  Buffer buffer = allocate(16, quirks().kinds.front());
  Event event = context_->record(*queue_);
  context_->wait(event);
  context_.reset();
  driver_.reset();
  buffer = Buffer();
  event = Event();
  queue_.reset();
}

TEST_P(DriverConformance, DescribesItsOwnMemoryAndTheHosts) {
  for (const MemoryKind kind : quirks().kinds) {
    const Buffer buffer = allocate(128, kind);
    const PointerInfo info = context_->describe(static_cast<std::byte*>(buffer.data()) + 8);
    EXPECT_EQ(info.device, buffer.device());
    EXPECT_EQ(info.kind, kind);
    EXPECT_EQ(info.host_accessible, kind != MemoryKind::kDevice);
    EXPECT_NE(info.address, nullptr);
    EXPECT_TRUE(info.base == nullptr || info.base == buffer.data());
    EXPECT_TRUE(info.size == 0 || info.size >= 128);
  }
  int local = 0;
  const PointerInfo info = context_->describe(&local);
  EXPECT_EQ(info.device, Device{});
  EXPECT_EQ(info.kind, MemoryKind::kHost);
  EXPECT_EQ(info.address, &local);
  EXPECT_TRUE(info.host_accessible);
  EXPECT_FALSE(info.managed);
  EXPECT_EQ(info.context, nullptr);
}

TEST_P(DriverConformance, SaysWhatAQueueReaches) {
  for (const MemoryKind kind : quirks().kinds) {
    const Buffer buffer = allocate(8, kind);
    EXPECT_TRUE(context_->accessible(buffer.ref(), *queue_));
    EXPECT_TRUE(context_->accessible(buffer.ref(), context_->make_queue()));
  }
  const BufferRef foreign{.data = this,
                          .size = 8,
                          .device = {.type = static_cast<DeviceType>(77), .id = 0},
                          .kind = MemoryKind::kDevice,
                          .read_only = false};
  EXPECT_FALSE(context_->accessible(foreign, *queue_));
  EXPECT_THROW(context_->accessible(foreign, Queue(foreign.device, NativeQueue(), nullptr)), InvalidArgumentError);
}

TEST_P(DriverConformance, SaysWhatItsDevicesAre) {
  for (const Device& device : driver_->devices()) {
    const DeviceInfo info = driver_->info(device);
    EXPECT_EQ(info.device, device);
    EXPECT_FALSE(info.backend.empty());
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory, 0u);
    EXPECT_FALSE(device_class_name(info.device_class).empty());
    EXPECT_EQ(info.kinds, quirks().kinds);
  }
  const Device missing{.type = driver_->devices().front().type, .id = 12'345};
  if (missing == driver_->devices().front()) return;  // every number is the host's
  EXPECT_THROW(driver_->info(missing), NotFoundError);
}

// Queues and events

TEST_P(DriverConformance, AnEventOfNoWorkIsComplete) {
  EXPECT_NO_THROW(context_->wait(context_->record(*queue_)));
  EXPECT_TRUE(context_->query(Event()));
  EXPECT_NO_THROW(context_->wait(Event()));
  EXPECT_NO_THROW(context_->order_after(*queue_, Event()));
}

TEST_P(DriverConformance, AQueueIsInOrder) {
  const Buffer a = allocate(8, quirks().kinds.front());
  const Buffer b = allocate(8, quirks().kinds.front());
  std::string first = "aaaaaaaa";
  std::string second = "bbbbbbbb";
  context_->copy(a.ref(), host(first), *queue_);
  context_->copy(b.ref(), a.ref(), *queue_);
  context_->copy(a.ref(), host(second), *queue_);
  EXPECT_EQ(download(b.ref()), first);
  EXPECT_EQ(download(a.ref()), second);
}

TEST_P(DriverConformance, AQueueIsOrderedAfterAnothersEvent) {
  const Queue producer = context_->make_queue();
  const Queue consumer = context_->make_queue();
  const Buffer a = allocate(8, quirks().kinds.front());
  const Buffer b = allocate(8, quirks().kinds.front());
  finish();
  std::string text = "ordered!";
  context_->copy(a.ref(), host(text), producer);
  Event written = context_->record(producer);
  context_->order_after(consumer, written);
  context_->copy(b.ref(), a.ref(), consumer);
  Event copied = context_->record(consumer);
  context_->wait(copied);
  EXPECT_TRUE(context_->query(written));
  EXPECT_TRUE(context_->query(copied));
  EXPECT_EQ(download(b.ref()), text);
}

TEST_P(DriverConformance, AnEventStandsForTheWorkBeforeItsRecording) {
  const Buffer buffer = allocate(6, quirks().kinds.front());
  std::string first = "first!";
  std::string second = "second";
  std::string seen(6, '?');
  context_->copy(buffer.ref(), host(first), *queue_);
  const Event before = context_->record(*queue_);
  context_->copy(buffer.ref(), host(second), *queue_);
  context_->copy(host(seen), buffer.ref(), *queue_);
  const Event event = context_->record(*queue_);
  context_->wait(event);
  EXPECT_EQ(seen, "second");
  EXPECT_TRUE(context_->query(before));
}

TEST_P(DriverConformance, ARecordedCopyHasTheEventOfItsEnd) {
  const Buffer buffer = allocate(6, quirks().kinds.front());
  std::string first = "first!";
  std::string second = "second";
  std::string seen(6, '?');
  context_->copy(buffer.ref(), host(first), *queue_);
  context_->copy(buffer.ref(), host(second), *queue_);
  const Event event = context_->copy_recorded(host(seen), buffer.ref(), *queue_);
  context_->wait(event);
  EXPECT_EQ(seen, "second");
  EXPECT_TRUE(context_->query(event));
  const Queue other = context_->make_queue();
  const Event written = context_->copy_recorded(buffer.ref(), host(first), *queue_);
  context_->order_after(other, written);
  context_->wait(context_->copy_recorded(host(seen), buffer.ref(), other));
  EXPECT_EQ(seen, "first!");
  EXPECT_NO_THROW(context_->wait(context_->copy_recorded(BufferRef{}, BufferRef{}, *queue_)));
  EXPECT_THROW(context_->copy_recorded(buffer.ref().as_read_only(), host(first), *queue_), InvalidArgumentError);
}

TEST_P(DriverConformance, CopiesOfAnEventAreTheSame) {
  const Buffer buffer = allocate(4, quirks().kinds.front());
  std::string text = "same";
  std::string seen(4, '?');
  context_->copy(buffer.ref(), host(text), *queue_);
  context_->copy(host(seen), buffer.ref(), *queue_);
  const Event event = context_->record(*queue_);
  const Event copy = event;
  context_->wait(copy);
  EXPECT_EQ(seen, "same");
  EXPECT_TRUE(context_->query(event));
}

TEST_P(DriverConformance, WorkOutlivesItsQueue) {
  const Buffer buffer = allocate(4, quirks().kinds.front());
  std::string text = "work";
  std::string seen(4, '?');
  context_->copy(buffer.ref(), host(text), *queue_);
  context_->copy(host(seen), buffer.ref(), *queue_);
  const Event event = context_->record(*queue_);
  queue_.reset();
  context_->wait(event);
  EXPECT_EQ(seen, "work");
}

TEST_P(DriverConformance, FreesWhenTheWorkBeforeIsDone) {
  std::string text(100'000, 'w');
  std::string seen(100'000, '?');
  Buffer buffer = allocate(text.size(), quirks().kinds.front());
  context_->copy(buffer.ref(), host(text), *queue_);
  context_->copy(host(seen), buffer.ref(), *queue_);
  context_->free(std::move(buffer), *queue_);
  finish();
  EXPECT_EQ(seen, text);
}

TEST_P(DriverConformance, AnEventIsWaitedForOnAnyThread) {
  const Buffer buffer = allocate(8, quirks().kinds.front());
  std::string text = "threaded";
  context_->copy(buffer.ref(), host(text), *queue_);
  Event event = context_->record(*queue_);
  std::atomic<bool> complete{false};
  std::thread waiter([&] {
    context_->wait(event);
    complete = context_->query(event);
  });
  waiter.join();
  EXPECT_TRUE(complete);
}

TEST_P(DriverConformance, ASynchronousDriversWorkIsDoneAtOnce) {
  if (quirks().asynchronous) return;  // nothing is promised without an event
  std::string from = "now";
  std::string to = "???";
  context_->copy(host(to), host(from), *queue_);
  EXPECT_EQ(to, "now");
}

TEST_P(DriverConformance, AFailedEventIsThrownAtWhoeverNeedsIt) {
  const Event event = Event::failed(std::make_shared<const SystemError>("the kernel before it failed"));
  EXPECT_THROW(context_->query(event), SystemError);
  EXPECT_THROW(context_->wait(event), SystemError);
  EXPECT_THROW(context_->order_after(*queue_, event), SystemError);
  EXPECT_NO_THROW(context_->wait(context_->record(*queue_)));
  // The queue goes on.
  const Buffer buffer = allocate(4, quirks().kinds.front());
  upload(buffer.ref(), "fine");
  EXPECT_EQ(download(buffer.ref()), "fine");
}

TEST_P(DriverConformance, MemorysPendingWorkIsWhatIsOnItsQueueNow) {
  Memory memory{.device = context_->device()};
  EXPECT_TRUE(memory.ready());
  EXPECT_EQ(memory.pending().native(), nullptr);
  memory.set_queue(context_, *queue_);
  EXPECT_FALSE(memory.ready());
  const Buffer buffer = allocate(4, quirks().kinds.front());
  upload(buffer.ref(), "work");
  EXPECT_NO_THROW(context_->wait(memory.pending()));
  memory.queue = Queue({.type = static_cast<DeviceType>(77), .id = 0}, NativeQueue(), nullptr);
  EXPECT_THROW(memory.pending(), InvalidArgumentError) << "it isn't a queue of that context";
  memory.context = nullptr;
  EXPECT_TRUE(memory.out_of_reach());
  EXPECT_THROW(memory.pending(), ExportError);
}

TEST_P(DriverConformance, WrapsForeignQueues) {
  if (!quirks().make_native_queue) {
    int not_a_queue = 0;
    EXPECT_THAT(message_of<UnsupportedError>([&] { context_->wrap_queue(NativeQueue(&not_a_queue), nullptr); }),
                HasSubstr(std::string(driver_->name())));
    return;
  }
  std::shared_ptr<void> native = quirks().make_native_queue();
  const std::weak_ptr<void> watched = native;
  {
    void* handle = native.get();
    const Queue queue = context_->wrap_queue(NativeQueue(handle), std::move(native));
    EXPECT_EQ(queue.native() != handle, quirks().copies_queues);
    EXPECT_EQ(context_->wrap_queue(NativeQueue(handle), nullptr), queue);
    EXPECT_FALSE(watched.expired());
    const Buffer buffer = allocate(4, quirks().kinds.front());
    finish();
    std::string text = "wrap";
    context_->copy(buffer.ref(), host(text), queue);
    Event event = context_->record(queue);
    context_->wait(event);
    EXPECT_EQ(download(buffer.ref()), text);
  }
  EXPECT_TRUE(watched.expired());
}

TEST_P(DriverConformance, WrapsForeignEvents) {
  EXPECT_TRUE(context_->query(context_->wrap_event(NativeEvent(), nullptr)));
  if (!quirks().make_native_event) {
    int not_an_event = 0;
    EXPECT_THAT(message_of<UnsupportedError>([&] { context_->wrap_event(NativeEvent(&not_an_event), nullptr); }),
                HasSubstr(std::string(driver_->name())));
    return;
  }
  std::shared_ptr<void> native = quirks().make_native_event();
  const std::weak_ptr<void> watched = native;
  {
    void* handle = native.get();
    const Event event = context_->wrap_event(NativeEvent(handle), std::move(native));
    EXPECT_EQ(event.native(), handle);
    context_->wait(event);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// Memory handles

TEST_P(DriverConformance, ExportsToAnotherContext) {
  const auto peer = driver_->open(context_->device());
  for (const MemoryKind kind : kMemoryKinds) {
    if (!has(quirks().exportable, kind)) {
      EXPECT_THROW(
          {
            const Buffer refused = allocate(64, kind, Sharing::kExportable);
            context_->export_memory(refused.ref());
          },
          UnsupportedError);
      continue;
    }
    const int descriptors = open_descriptors();
    {
      Buffer buffer = allocate(10'000, kind, Sharing::kExportable);
      upload(buffer.ref(), std::string(10'000, 'x'));
      upload(buffer.ref().slice(5000, 5), "hello");
      MemoryHandle handle = context_->export_memory(buffer.ref().slice(5000, 5));
      EXPECT_EQ(handle.driver, driver_->name());
      EXPECT_EQ(handle.size, 5u);
      const Buffer imported = peer->import_memory(std::move(handle), "here");
      EXPECT_EQ(imported.size(), 5u);
      EXPECT_EQ(imported.read_only(), !quirks().import_writable);
      EXPECT_EQ(download(imported.ref()), "hello");
      upload(buffer.ref().slice(5000, 5), "world");
      EXPECT_EQ(download(imported.ref()), "world");
      buffer = Buffer();
      EXPECT_EQ(download(imported.ref()), "world") << "the importer keeps the memory";
    }
    EXPECT_EQ(open_descriptors(), descriptors);
  }
}

TEST_P(DriverConformance, ExportsNothingThatWasntMadeForIt) {
  for (const MemoryKind kind : quirks().kinds) {
    const Buffer buffer = allocate(64, kind);
    EXPECT_THAT(message_of<UnsupportedError>([&] { context_->export_memory(buffer.ref()); }),
                HasSubstr(std::string(driver_->name())));
  }
  std::string bytes = "not even ours";
  EXPECT_THROW(context_->export_memory(host(bytes)), UnsupportedError);
}

TEST_P(DriverConformance, ImportsNothingMalformed) {
  const int descriptors = open_descriptors();
  {
    MemoryHandle foreign;
    foreign.driver = "somebody else";
    foreign.size = 8;
    EXPECT_THAT(message_of<ProtocolError>([&] { context_->import_memory(std::move(foreign), "handle 4"); }),
                HasSubstr("handle 4"));
    MemoryHandle empty;
    empty.driver = driver_->name();
    empty.size = 8;
    EXPECT_THROW(context_->import_memory(std::move(empty), "here"), ProtocolError);
    for (const MemoryKind kind : quirks().exportable) {
      const Buffer buffer = allocate(64, kind, Sharing::kExportable);
      const auto spoiled = [&](auto spoil) {
        MemoryHandle handle = context_->export_memory(buffer.ref());
        spoil(handle);
        EXPECT_THROW(context_->import_memory(std::move(handle), "here"), ProtocolError);
      };
      spoiled([](MemoryHandle& handle) { handle.opaque.clear(); });
      spoiled([](MemoryHandle& handle) { handle.opaque.resize(10'000); });
      spoiled([](MemoryHandle& handle) { handle.size = 0; });
      spoiled([](MemoryHandle& handle) { handle.size = UINT64_MAX; });
      spoiled([](MemoryHandle& handle) { handle.offset = UINT64_MAX; });
      spoiled([](MemoryHandle& handle) { handle.offset = 1; });
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_P(DriverConformance, ManyThreadsUseOneContext) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Queue queue = context_->make_queue();
      for (int i = 0; i < 50; ++i) {
        const MemoryKind kind = quirks().kinds[static_cast<std::size_t>(i) % quirks().kinds.size()];
        const Sharing sharing = i % 2 == 0 && has(quirks().exportable, kind) ? Sharing::kExportable : Sharing::kPrivate;
        Buffer buffer = context_->allocate(100, kind, sharing, queue);
        std::string out(100, static_cast<char>('a' + t));
        std::string in(100, '?');
        context_->copy(buffer.ref(), host(out), queue);
        context_->copy(host(in), buffer.ref(), queue);
        context_->describe(buffer.data());
        Event event = context_->record(queue);
        context_->wait(event);
        context_->free(std::move(buffer), queue);
        if (in == out) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

}  // namespace crossdock::device
