#include "crossdock/device/memory.h"

#include <chrono>
#include <memory>

#include "unit/device/sim/support.h"

namespace crossdock::device {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

/// Memory of a simulated device on a queue.
class MemoryTest : public SimTest {
 protected:
  Memory made(const Queue& queue) {
    Memory memory{.device = kZero, .kind = MemoryKind::kDevice};
    memory.set_queue(context_, queue);
    return memory;
  }
  void write(const Queue& queue) { context_->copy(buffer_.ref(), host(source_).as_read_only(), queue); }
  std::uint64_t calls(SimVerb verb) { return driver_->counters().calls[static_cast<std::size_t>(verb)]; }

  std::string source_ = std::string(64, 'w');
  Buffer buffer_ = ready(64);
};

TEST_F(MemoryTest, WithoutQueueAndEventNothingIsPending) {
  const Memory memory{.device = kZero};
  EXPECT_TRUE(memory.ready());
  EXPECT_FALSE(memory.out_of_reach());
  const std::uint64_t before = driver_->counters().total();
  EXPECT_EQ(memory.pending().native(), nullptr);
  EXPECT_EQ(driver_->counters().total(), before);
}

TEST_F(MemoryTest, PendingIsWhatIsOnTheQueueNow) {
  const Memory memory = made(queue_);
  EXPECT_FALSE(memory.ready());
  slow(10ms);
  const Event before = memory.pending();
  write(queue_);
  const Event after = memory.pending();
  context_->wait(before);
  EXPECT_FALSE(context_->query(after)) << "the work came later";
  context_->wait(after);
  finish(queue_);
}

TEST_F(MemoryTest, ItCostsOneRecord) {
  const Memory memory = made(queue_);
  const std::uint64_t before = driver_->counters().total();
  const std::uint64_t records = calls(SimVerb::kRecord);
  const Event event = memory.pending();
  EXPECT_EQ(driver_->counters().total() - before, 1u);
  EXPECT_EQ(calls(SimVerb::kRecord) - records, 1u);
}

TEST_F(MemoryTest, AnEventBesidesTheQueueIsPendingToo) {
  slow(10ms);
  write(other_);
  Memory memory = made(queue_);
  memory.event = recorded(other_);
  context_->wait(memory.pending());
  EXPECT_TRUE(context_->query(memory.event));
}

TEST_F(MemoryTest, AnEventOfTheQueuesOwnIsOrderedOnce) {
  Memory memory{.device = kZero, .kind = MemoryKind::kDevice};
  memory.set_queue(context_, queue_, recorded(queue_));
  const std::uint64_t before = calls(SimVerb::kOrderAfter);
  const Event event = memory.pending();
  EXPECT_EQ(calls(SimVerb::kOrderAfter), before);
  memory.event = recorded(other_);  // another one counts again
  memory.pending();
  EXPECT_EQ(calls(SimVerb::kOrderAfter), before + 1);
}

TEST_F(MemoryTest, AFailureIsThrownAndStays) {
  Memory memory = made(queue_);
  memory.event = Event::failed(std::make_shared<const SystemError>("the kernel trapped"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(memory.ready(), SystemError);
    EXPECT_THROW(memory.pending(), SystemError);
  }
}

TEST_F(MemoryTest, AFailureToRecordIsThrown) {
  const Memory memory = made(queue_);
  driver_->fail_next(SimVerb::kRecord, 0, ResourceError("no events left"));
  EXPECT_THROW(memory.pending(), ResourceError);
  EXPECT_NO_THROW(memory.pending());
}

TEST_F(MemoryTest, AQueueWithoutAContextIsOutOfReach) {
  Memory memory{.device = kZero};
  memory.queue = queue_;
  EXPECT_TRUE(memory.out_of_reach());
  EXPECT_FALSE(memory.ready());
  EXPECT_THROW(memory.pending(), ExportError);
}

TEST_F(MemoryTest, ItOutlivesTheQueuesMaker) {
  Memory memory{.device = kZero, .kind = MemoryKind::kDevice};
  {
    const Queue mine = context_->make_queue();
    memory.set_queue(context_, mine);
    slow(5ms);
    write(mine);
  }
  context_->wait(memory.pending());
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

}  // namespace
}  // namespace crossdock::device
