// Forgotten orders are found, every time and whatever the timing; and nothing else is.
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "device/memory_handle.h"
#include "device/release_order.h"
#include "support/failing_allocations.h"
#include "support/message_of.h"
#include "unit/device/sim/support.h"

namespace crossdock::device {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SimOrderTest : public SimTest {
 protected:
  /// The queues read `source_`, also after a test that has seen enough.
  void TearDown() override {
    failure_of(queue_);
    failure_of(other_);
  }
  void write(const BufferRef& to, const Queue& queue) {
    context_->copy(
        to,
        BufferRef{.data = source_.data(), .size = to.size, .device = {}, .kind = MemoryKind::kHost, .read_only = true},
        queue);
  }
  void read(const BufferRef& from, const Queue& queue) {
    context_->copy(scratch(queue).ref().slice(0, from.size), from, queue);
  }
  /// Memory of this queue alone.
  Buffer& scratch(const Queue& queue) { return queue.native() == queue_.native() ? one_ : two_; }

  std::string source_ = std::string(10'000, 's');
  Buffer one_ = ready(10'000);
  Buffer two_ = ready(10'000);
  Buffer buffer_ = ready(10'000);
};

TEST_F(SimOrderTest, AWriteIsBeforeAnothersRead) {
  write(buffer_.ref(), queue_);
  read(buffer_.ref(), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("queue 2 of ext_dev:0 reads memory that queue 1 of ext_dev:0 writes"));
  EXPECT_THAT(driver_->faults(), SizeIs(1));
  driver_->forget_faults();
  EXPECT_THAT(driver_->faults(), IsEmpty());
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(SimOrderTest, AReadIsBeforeAnothersWrite) {
  read(buffer_.ref(), queue_);
  write(buffer_.ref(), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("queue 2 of ext_dev:0 writes memory that queue 1 of ext_dev:0 reads"));
}

TEST_F(SimOrderTest, TwoWrites) {
  write(buffer_.ref(), queue_);
  write(buffer_.ref(), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("queue 1 of ext_dev:0 writes"));
}

TEST_F(SimOrderTest, UnorderedWorkIsntDone) {
  upload(buffer_.ref().slice(0, 4), "good");
  read(buffer_.ref(), queue_);
  const Event reading = recorded(queue_);
  std::string evil = "evil";
  context_->copy(buffer_.ref().slice(0, 4), host(evil), other_);
  EXPECT_NE(failure_of(other_), "");
  context_->wait(reading);
  EXPECT_EQ(download(buffer_.ref().slice(0, 4)), "good");
}

TEST_F(SimOrderTest, AnAllocationIsBeforeItsUse) {
  const Buffer fresh = allocate(64);
  write(fresh.ref(), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("was allocated on queue 1 of ext_dev:0"));
}

TEST_F(SimOrderTest, HostMemoryCountsToo) {
  std::string shared(100, 'x');
  context_->copy(host(shared), one_.ref().slice(0, 100), queue_);
  context_->copy(two_.ref().slice(0, 100), host(shared), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("reads memory that queue 1 of ext_dev:0 writes"));
  finish(queue_);
}

TEST_F(SimOrderTest, AnEventRecordedTooEarlyOrdersTooLittle) {
  write(buffer_.ref(), queue_);
  const Event early = recorded(queue_);
  write(buffer_.ref(), queue_);
  context_->order_after(other_, early);
  read(buffer_.ref(), other_);
  EXPECT_NE(failure_of(other_), "");
  context_->wait(early);
  read(buffer_.ref(), other_);
  EXPECT_NE(failure_of(other_), "") << "nor does a wait for it";
}

TEST_F(SimOrderTest, OrderingAfterAnEventIsEnough) {
  write(buffer_.ref(), queue_);
  context_->order_after(other_, recorded(queue_));
  read(buffer_.ref(), other_);
  write(buffer_.ref(), other_);
  context_->order_after(queue_, recorded(other_));
  write(buffer_.ref(), queue_);
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, OrderGoesThroughAThirdQueue) {
  const Queue third = context_->make_queue();
  write(buffer_.ref(), queue_);
  context_->order_after(third, recorded(queue_));
  context_->order_after(other_, recorded(third));
  read(buffer_.ref(), other_);
  EXPECT_EQ(failure_of(other_), "");
}

TEST_F(SimOrderTest, AWaitOfTheHostIsEnough) {
  write(buffer_.ref(), queue_);
  finish(queue_);
  read(buffer_.ref(), other_);
  EXPECT_EQ(failure_of(other_), "");
  write(buffer_.ref(), other_);
  const Event event = recorded(other_);
  while (!context_->query(event)) {
  }
  write(buffer_.ref(), queue_);
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(SimOrderTest, AWaitForALaterQueuesEventIsEnough) {
  write(buffer_.ref(), queue_);
  context_->order_after(other_, recorded(queue_));
  finish(other_);
  const Queue third = context_->make_queue();
  context_->copy(buffer_.ref().slice(0, 8), one_.ref().slice(0, 8), third);
  EXPECT_EQ(failure_of(third), "");
}

TEST_F(SimOrderTest, PartsOfAnAllocationAreApart) {
  write(buffer_.ref().slice(0, 100), queue_);
  write(buffer_.ref().slice(100, 100), other_);
  read(buffer_.ref().slice(50, 50), queue_);
  EXPECT_EQ(failure_of(other_), "");
  write(buffer_.ref().slice(99, 1), other_);
  EXPECT_NE(failure_of(other_), "");
}

TEST_F(SimOrderTest, TheRestOfAnAccessIsKept) {
  write(buffer_.ref().slice(0, 300), queue_);
  context_->order_after(other_, recorded(queue_));
  write(buffer_.ref().slice(100, 100), other_);  // takes the middle of the first one's place
  const Queue third = context_->make_queue();
  context_->copy(buffer_.ref().slice(0, 1), one_.ref().slice(0, 1), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 1 of ext_dev:0 writes"));
  context_->copy(buffer_.ref().slice(299, 1), one_.ref().slice(0, 1), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 1 of ext_dev:0 writes"));
  context_->copy(buffer_.ref().slice(150, 1), one_.ref().slice(0, 1), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 2 of ext_dev:0 writes"));
}

TEST_F(SimOrderTest, ReadersNeedNoOrder) {
  read(buffer_.ref(), queue_);
  read(buffer_.ref(), other_);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_EQ(failure_of(other_), "");
}

TEST_F(SimOrderTest, EveryReaderIsBeforeTheNextWriter) {
  const Queue third = context_->make_queue();
  read(buffer_.ref(), queue_);
  read(buffer_.ref(), other_);
  context_->order_after(third, recorded(other_));
  write(buffer_.ref(), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 1 of ext_dev:0 reads"));
}

TEST_F(SimOrderTest, FreeingUnderAnothersWorkIsReported) {
  slow(std::chrono::milliseconds(5));
  write(buffer_.ref(), queue_);
  context_->free(std::move(buffer_), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("queue 2 of ext_dev:0 frees memory that queue 1 of ext_dev:0 writes"));
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(SimOrderTest, FreeingInOrderIsRight) {
  slow(std::chrono::milliseconds(5));
  write(buffer_.ref(), queue_);
  context_->order_after(other_, recorded(queue_));
  context_->free(std::move(buffer_), other_);
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, DroppingUnderWorkIsReportedToItsEvents) {
  slow(std::chrono::milliseconds(5));
  write(buffer_.ref(), queue_);
  const Event event = recorded(queue_);
  buffer_ = Buffer();
  EXPECT_THAT(crossdock::testing::message_of<Error>([&] { context_->wait(event); }),
              HasSubstr("dropped while queue 1 of ext_dev:0 still writes it"));
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(SimOrderTest, DroppingAfterAWaitIsRight) {
  write(buffer_.ref(), queue_);
  finish(queue_);
  buffer_ = Buffer();
  EXPECT_EQ(failure_of(queue_), "");
  { const Buffer never_used = allocate(10); }
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, AdoptedMemoryIsFreedInOrderToo) {
  const auto shared = std::make_shared<Buffer>(std::move(buffer_));
  Buffer adopted = context_->adopt(shared->ref(), shared);
  write(adopted.ref(), queue_);
  const BufferRef memory = adopted.ref();
  context_->free(std::move(adopted), queue_);
  read(memory, queue_);  // it has another owner
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, TheLastOwnerOfAdoptedMemoryFreesInOrder) {
  slow(std::chrono::milliseconds(5));
  auto shared = std::make_shared<Buffer>(std::move(buffer_));
  const BufferRef memory = shared->ref();
  Buffer adopted = context_->adopt(memory, std::move(shared));
  write(memory, queue_);
  context_->free(std::move(adopted), queue_);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, AShareThatAnotherQueueHadIsBeforeTheFree) {
  const auto shared = std::make_shared<Buffer>(std::move(buffer_));
  read(shared->ref(), other_);
  context_->free(Buffer(shared->ref(), shared), other_);
  while (shared.use_count() > 1) std::this_thread::yield();  // the host sees no event
  context_->free(std::move(*shared), queue_);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, WhatAQueueLetsGoOfMayGoLaterAndElsewhere) {
  struct Late {
    std::mutex mutex;
    std::shared_ptr<Buffer> buffer;
    std::shared_ptr<const void> after;
  };
  const auto late = std::make_shared<Late>();
  const auto shared = std::make_shared<Buffer>(std::move(buffer_));
  const BufferRef elsewhere{
      .data = source_.data(), .size = 1, .device = {}, .kind = MemoryKind::kHost, .read_only = true};
  read(shared->ref(), other_);
  context_->free(Buffer(elsewhere, std::shared_ptr<void>(shared.get(),
                                                         [late, shared](void*) {
                                                           const std::lock_guard lock(late->mutex);
                                                           late->after = release_order();
                                                           late->buffer = shared;
                                                         })),
                 other_);
  for (bool gone = false; !gone; std::this_thread::yield()) {
    const std::lock_guard lock(late->mutex);
    gone = late->buffer != nullptr;
  }
  {
    const ReleaseScope scope(late->after);
    context_->free(std::move(*late->buffer), queue_);
  }
  EXPECT_EQ(release_order(), nullptr);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, WhatCantBeFreedIsStillTheCallers) {
  slow(std::chrono::milliseconds(5));
  write(buffer_.ref(), queue_);
  driver_->fail_next(SimVerb::kFree, 0, ResourceError("not now"));
  EXPECT_THROW(context_->free(std::move(buffer_), queue_), ResourceError);
  context_->free(std::move(buffer_), queue_);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(SimOrderTest, WhereThereIsNoMemoryToFreeItTheBufferStays) {
  write(buffer_.ref(), queue_);
  write(buffer_.ref(), other_);  // a fault, whose text is memory too
  std::int64_t number = 0;
  for (bool failed = true; failed; ++number) {
    failed = false;
    const crossdock::testing::FailingAllocations none(crossdock::testing::Whose::kMine, number, 1);
    try {
      context_->free(std::move(buffer_), queue_);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    ASSERT_EQ(buffer_.data() != nullptr, failed);
  }
  EXPECT_GT(number, 2);
  failure_of(queue_);
  failure_of(other_);
}

TEST_F(SimOrderTest, FreeingHostMemoryForgetsNobodyElsesWorkOnIt) {
  auto bytes = std::make_shared<std::string>(100, 'x');
  const BufferRef memory = host(*bytes);
  slow(std::chrono::milliseconds(5));
  context_->copy(memory.slice(50, 50), two_.ref().slice(0, 50), other_);
  context_->copy(one_.ref().slice(0, 50), memory.slice(0, 50), queue_);
  context_->free(context_->adopt(memory, bytes), queue_);
  while (bytes.use_count() != 1) {
  }
  const Queue third = context_->make_queue();
  context_->copy(one_.ref().slice(50, 50), memory.slice(50, 50), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 2 of ext_dev:0 writes"));
  driver_->forget_faults();
  finish(other_);
}

TEST_F(SimOrderTest, HostMemoryFreedOnAQueueIsForgotten) {
  auto bytes = std::make_shared<std::string>(100, 'x');
  const BufferRef memory = host(*bytes);
  Buffer adopted = context_->adopt(memory, bytes);
  context_->copy(one_.ref().slice(0, 100), memory, queue_);
  context_->free(std::move(adopted), queue_);
  while (bytes.use_count() != 1) {  // now it is this test's again
  }
  context_->copy(memory, two_.ref().slice(0, 100), other_);
  EXPECT_EQ(failure_of(other_), "");
  finish(queue_);
}

TEST_F(SimOrderTest, ImportedMemoryIsTheSameMemory) {
  const Buffer mine = ready(100, MemoryKind::kDevice, Sharing::kExportable);
  const Buffer theirs = context_->import_memory(context_->export_memory(mine.ref()), "here");
  write(mine.ref(), queue_);
  read(theirs.ref(), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("queue 1 of ext_dev:0 writes"));
  finish(queue_);
}

TEST_F(SimOrderTest, AReadDoesntHideTheWriteBeforeIt) {
  write(buffer_.ref(), queue_);
  context_->order_after(other_, recorded(queue_));
  read(buffer_.ref(), other_);
  const Queue third = context_->make_queue();
  const Buffer apart = context_->allocate(8, MemoryKind::kDevice, Sharing::kPrivate, third);
  context_->copy(apart.ref(), buffer_.ref().slice(0, 8), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 1 of ext_dev:0 writes"));
}

TEST_F(SimOrderTest, ManyNeighbouringCopiesAreEachHeld) {
  for (std::uint64_t i = 0; i < 1'000; ++i) write(buffer_.ref().slice(i, 1), queue_);
  const Event event = recorded(queue_);
  for (std::uint64_t i = 1'000; i < 2'000; ++i) write(buffer_.ref().slice(i, 1), queue_);
  context_->order_after(other_, event);
  read(buffer_.ref().slice(0, 1'000), other_);
  EXPECT_THAT(driver_->faults(), IsEmpty());
  read(buffer_.ref().slice(999, 2), other_);
  EXPECT_NE(failure_of(other_), "");
  write(buffer_.ref().slice(1'999, 1), other_);
  EXPECT_NE(failure_of(other_), "");
  EXPECT_EQ(failure_of(queue_), "");
}

}  // namespace
}  // namespace crossdock::device
