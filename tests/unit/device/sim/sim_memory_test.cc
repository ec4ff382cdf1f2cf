// Who may touch simulated memory, and when.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "device/memory_handle.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/sim/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::mappings_of;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using crossdock::testing::run_in_child;
using ::testing::HasSubstr;

constexpr MemoryKind kHostVisible[] = {MemoryKind::kHost, MemoryKind::kShared};

/// 0, or minus the signal that it dies of.
int read_at(const void* address) {
  return run_in_child([address] { (void)*static_cast<const volatile char*>(address); });
}
int write_at(void* address) {
  return run_in_child([address] { *static_cast<volatile char*>(address) = 1; });
}

TEST_F(SimTest, TheHostTouchesNoDeviceMemory) {
  const Buffer buffer = ready(10'000);
  EXPECT_EQ(read_at(buffer.data()), -SIGSEGV);
  EXPECT_EQ(write_at(buffer.data()), -SIGSEGV);
  const UniqueFd null(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::read(null.get(), buffer.data(), 8), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(SimTest, TheHostTouchesPinnedAndManagedMemory) {
  for (const MemoryKind kind : kHostVisible) {
    const Buffer buffer = ready(10'000, kind);
    std::memcpy(buffer.data(), "by the host", 11);
    EXPECT_EQ(download(buffer.ref().slice(0, 11)), "by the host");
    upload(buffer.ref().slice(3, 3), "THE");
    EXPECT_EQ(std::memcmp(buffer.data(), "by THE host", 11), 0);
  }
}

TEST_F(SimTest, NobodyTouchesWhatIsBesideAnAllocationOrWasFreed) {
  const long page = ::sysconf(_SC_PAGESIZE);
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost}) {
    Buffer buffer = ready(static_cast<std::uint64_t>(page), kind);
    auto* start = static_cast<std::byte*>(buffer.data());
    EXPECT_EQ(read_at(start - 1), -SIGSEGV);
    EXPECT_EQ(read_at(start + page), -SIGSEGV);
    buffer = Buffer();
    EXPECT_EQ(read_at(start), -SIGSEGV);
    const Buffer next = ready(static_cast<std::uint64_t>(page), kind);
    EXPECT_NE(next.data(), start) << "its addresses aren't used again soon";
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  const BufferRef gone{.data = start, .size = 8, .device = kZero, .kind = kind, .read_only = false};
                  context_->copy(next.ref().slice(0, 8), gone, queue_);
                }),
                HasSubstr("doesn't exist, or was freed"));
  }
}

TEST_F(SimTest, MemoryPutOnAQueueToBeFreedIsGone) {
  Buffer buffer = ready(64);
  const BufferRef memory = buffer.ref();
  slow(std::chrono::milliseconds(20));
  std::string text(64, 'x');
  context_->copy(memory, host(text), queue_);  // keeps the queue busy
  context_->free(std::move(buffer), queue_);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->copy(memory, host(text), queue_); }),
              HasSubstr("freed on a queue"));
  finish(queue_);
  EXPECT_EQ(context_->describe(memory.data).base, nullptr);
}

TEST_F(SimTest, PinnedMemoryUnderWorkIsTakenFromTheHost) {
  for (const MemoryKind kind : kHostVisible) {
    const Buffer pinned = ready(3 * 4096 + 100, kind);
    const Buffer device = ready(pinned.size());
    auto* start = static_cast<std::byte*>(pinned.data());
    context_->copy(pinned.ref(), device.ref(), queue_);
    Event event = recorded(queue_);
    EXPECT_EQ(read_at(start), -SIGSEGV) << "also if the work happens to be done";
    EXPECT_EQ(read_at(start + pinned.size() - 1), -SIGSEGV);
    context_->wait(event);
    EXPECT_EQ(write_at(start), 0);
    EXPECT_EQ(write_at(start + pinned.size() - 1), 0);

    context_->copy(device.ref(), pinned.ref(), queue_);
    event = recorded(queue_);
    EXPECT_EQ(read_at(start), 0) << "both may read";
    EXPECT_EQ(write_at(start), -SIGSEGV);
    while (!context_->query(event)) {
    }
    EXPECT_EQ(write_at(start), 0);
  }
}

TEST_F(SimTest, PartsOfPinnedMemoryAreTheHostsWhileOthersAreUnderWork) {
  const Buffer pinned = ready(4 * 4096, MemoryKind::kHost);
  const Buffer device = ready(4 * 4096);
  auto* start = static_cast<std::byte*>(pinned.data());
  std::memset(start, 'h', pinned.size());
  context_->copy(pinned.ref().slice(4096 + 10, 2 * 4096), device.ref().slice(0, 2 * 4096), queue_);
  EXPECT_EQ(read_at(start + 4096), 0) << "the page's first bytes are nobody's";
  EXPECT_EQ(read_at(start + 2 * 4096), -SIGSEGV);
  EXPECT_EQ(read_at(start + 3 * 4096 + 10), 0);
  EXPECT_EQ(std::to_integer<char>(start[4096 + 9]), 'h');
  EXPECT_EQ(std::to_integer<char>(start[3 * 4096 + 10]), 'h');
  finish(queue_);
  EXPECT_EQ(read_at(start + 2 * 4096), 0);
}

TEST_F(SimTest, WhoForgetsToWaitSeesThePattern) {
  slow(std::chrono::milliseconds(200));
  const Buffer device = allocate(5 << 20);
  for (const std::size_t size : {std::size_t{10}, std::size_t{5} << 20}) {
    std::string target(size, 'x');
    context_->copy(host(target), device.ref().slice(0, size), queue_);
    EXPECT_EQ(target.front(), static_cast<char>(kSimPattern));
    EXPECT_EQ(target.back(), static_cast<char>(kSimPattern));
    if (size > 100'000) {
      EXPECT_NE(target.find(static_cast<char>(kSimPattern), size / 2), std::string::npos);
    }
    finish(queue_);
  }
}

TEST_F(SimTest, WhatEarlierWorkStillReadsIsNoPatternYet) {
  slow(std::chrono::milliseconds(10));
  const Buffer a = allocate(4);
  const Buffer b = allocate(4);
  std::string text = "keep";
  std::string back = "back";
  context_->copy(b.ref(), host(back), queue_);
  context_->copy(a.ref(), host(text), queue_);
  context_->copy(host(text), b.ref(), queue_);  // after a has it
  finish(queue_);
  EXPECT_EQ(text, "back");
  EXPECT_EQ(download(a.ref()), "keep");
}

TEST_F(SimTest, NewMemoryIsFullOfThePattern) {
  for (int round = 0; round < 2; ++round) {
    const Buffer buffer = allocate(3);
    EXPECT_EQ(download(buffer.ref()), std::string(3, static_cast<char>(kSimPattern)));
    upload(buffer.ref(), "old");
  }
}

TEST_F(SimTest, CopiesBetweenTwoDevices) {
  const auto peer = driver_->open(kOne);
  const Queue there = peer->make_queue();
  const Buffer far = peer->allocate(5, MemoryKind::kDevice, Sharing::kPrivate, there);
  Event made = peer->record(there);
  context_->order_after(queue_, made);
  const Buffer near = allocate(5);
  upload(near.ref(), "peers");
  context_->copy(far.ref(), near.ref(), queue_);
  Event copied = recorded(queue_);
  peer->order_after(there, copied);
  std::string seen(5, '?');
  peer->copy(host(seen), far.ref(), there);
  peer->wait(peer->record(there));
  EXPECT_EQ(seen, "peers");
  const PointerInfo info = context_->describe(far.data());
  EXPECT_EQ(info.device, kOne) << "every device knows all of the driver's memory";
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->copy(host(seen), far.ref(), queue_); }),
              HasSubstr("neither source nor target"));
  BufferRef mistaken = far.ref();
  mistaken.device = kZero;
  EXPECT_THROW(context_->copy(near.ref(), mistaken, queue_), InvalidArgumentError);
  EXPECT_THROW(context_->adopt(far.ref(), nullptr), InvalidArgumentError);
}

TEST_F(SimTest, RefusesMemoryThatIsntThere) {
  const Buffer buffer = ready(100);
  const Buffer pinned = ready(100, MemoryKind::kHost);
  std::string bytes(200, 'x');
  BufferRef long_ref = buffer.ref();
  long_ref.size = 200;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->copy(long_ref, host(bytes), queue_); }),
              HasSubstr("200 bytes at 0 of an allocation of 100"));
  BufferRef called_host = buffer.ref();
  called_host.device = {};
  EXPECT_THROW(context_->copy(pinned.ref(), called_host, queue_), InvalidArgumentError);
  BufferRef pinned_as_host = pinned.ref();
  pinned_as_host.device = {};
  EXPECT_NO_THROW(context_->copy(buffer.ref(), pinned_as_host, queue_));
  finish(queue_);
}

TEST_F(SimTest, ADeviceHasSoMuchMemory) {
  driver_->set_memory(10'000);
  Buffer most = allocate(9'000);
  EXPECT_THAT(message_of<ResourceError>([&] { allocate(1'001); }), HasSubstr("9000 of 10000 are in use"));
  EXPECT_NO_THROW(
      driver_->open(kOne)->allocate(9'000, MemoryKind::kDevice, Sharing::kPrivate, driver_->open(kOne)->make_queue()));
  most = Buffer();
  EXPECT_NO_THROW(allocate(10'000));
  driver_->set_memory(UINT64_MAX);
  EXPECT_THROW(allocate(UINT64_MAX), ResourceError);
}

TEST_F(SimTest, GivesItsMemoryBack) {
  const int descriptors = open_descriptors();
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 50; ++i) buffers.push_back(allocate(10'000));
    EXPECT_EQ(open_descriptors(), descriptors) << "private memory needs none";
  }
  driver_->set_devices(0);
  // Queues of tests before may still be at their last work.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (mappings_of("crossdock-sim") != 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(mappings_of("crossdock-sim"), 0u);
}

TEST_F(SimTest, ImportedMemoryIsTheSameMemory) {
  Buffer buffer = ready(100, MemoryKind::kHost, Sharing::kExportable);
  const auto peer = driver_->open(kOne);
  const Buffer imported = peer->import_memory(context_->export_memory(buffer.ref()), "here");
  EXPECT_NE(imported.data(), buffer.data());
  EXPECT_EQ(imported.device(), kOne);
  EXPECT_THROW(context_->copy(imported.ref(), buffer.ref(), queue_), InvalidArgumentError) << "onto itself";
  const Buffer device = ready(100);
  context_->copy(buffer.ref(), device.ref(), queue_);
  EXPECT_EQ(read_at(imported.data()), -SIGSEGV);
  finish(queue_);
  EXPECT_EQ(read_at(imported.data()), 0);
}

TEST_F(SimTest, ImportsNothingUnsealedOrOfNoKind) {
  const Buffer buffer = ready(100, MemoryKind::kDevice, Sharing::kExportable);
  MemoryHandle unsealed = context_->export_memory(buffer.ref());
  unsealed.descriptor = UniqueFd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.descriptor.get(), 4096), 0);
  EXPECT_THAT(message_of<ProtocolError>([&] { context_->import_memory(std::move(unsealed), "here"); }),
              HasSubstr("sealed"));
  MemoryHandle unkind = context_->export_memory(buffer.ref());
  unkind.opaque[8] = std::byte{9};
  EXPECT_THAT(message_of<ProtocolError>([&] { context_->import_memory(std::move(unkind), "here"); }),
              HasSubstr("memory kind 9"));
}

}  // namespace
}  // namespace crossdock::device
