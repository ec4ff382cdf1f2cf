// Devices, counters, injected failures, threads.
#include "device/sim.h"

#include <dirent.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "crossdock/device/registry.h"
#include "device/memory_handle.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/sim/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::mappings_of;
using crossdock::testing::message_of;
using crossdock::testing::run_in_child;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Threads = std::set<std::string>;

Threads threads() {
  Threads found;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return found;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') found.insert(entry->d_name);
  }
  ::closedir(folder);
  return found;
}

/// Those that weren't there before; threads of tests before this may still be ending.
Threads new_threads(const Threads& before) {
  Threads found = threads();
  for (const std::string& one : before) found.erase(one);
  return found;
}

/// Threads end a moment after they are told to.
bool new_threads_end(const Threads& before) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!new_threads(before).empty()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(SimDriver, IsInTheDefaultRegistryWithoutDevicesAndCostsNothing) {
  const Threads before = threads();
  const std::size_t mapped = mappings_of("crossdock-sim");
  const auto registry = make_default_registry();
  const auto driver = std::dynamic_pointer_cast<SimDriver>(registry->find("sim"));
  ASSERT_NE(driver, nullptr);
  EXPECT_THAT(driver->devices(), IsEmpty());
  EXPECT_THAT(message_of<NotFoundError>([&] { registry->context(kZero); }), HasSubstr("no device sim:0 (ext_dev:0)"));
  EXPECT_THAT(new_threads(before), IsEmpty());
  EXPECT_LE(mappings_of("crossdock-sim"), mapped);
  driver->set_devices(2);
  EXPECT_EQ(registry->reports().back().devices.size(), 2u);
  EXPECT_NE(registry->context(kOne), nullptr);
  EXPECT_NE(registry->default_queue(kZero).native(), registry->default_queue(kOne).native());
  EXPECT_EQ(registry->default_queue(kZero).native(), registry->default_queue(kZero).native());
  EXPECT_EQ(driver->counters().of(SimVerb::kMakeQueue), 2u);
  EXPECT_EQ(driver->counters().of(SimVerb::kOpen), 3u) << "two devices, and one in vain";
}

TEST(SimDriver, TellsAQueuesDevice) {
  const auto driver = make_sim_driver({.devices = 2});
  const Queue first = driver->open(kZero)->make_queue();
  void* ended = nullptr;
  {
    const Queue second = driver->open(kOne)->make_queue();
    EXPECT_EQ(driver->context_of_queue(NativeQueue(first.native()))->device, kZero);
    EXPECT_EQ(driver->context_of_queue(NativeQueue(second.native()))->device, kOne);
    ended = second.native();
  }
  EXPECT_FALSE(driver->context_of_queue(NativeQueue(ended)));
  EXPECT_FALSE(driver->context_of_queue(NativeQueue()));
  EXPECT_FALSE(driver->current_context()) << "there is no such thing";
}

TEST(SimDriver, OpensNoOtherDeviceAndNoNativeContext) {
  EXPECT_THROW(make_sim_driver({.devices = 1})->open(kOne), NotFoundError);
  int native = 0;
  EXPECT_THROW(make_sim_driver({.devices = 1})->open(kZero, NativeContext(&native)), UnsupportedError);
}

TEST(SimDriver, NamesItsVerbs) {
  for (std::size_t number = 0; number < kSimVerbs; ++number) {
    const auto verb = static_cast<SimVerb>(number);
    EXPECT_EQ(sim_verb_of(sim_verb_name(verb)), verb);
  }
  EXPECT_EQ(sim_verb_name(SimVerb::kOrderAfter), "order_after");
  EXPECT_EQ(sim_verb_name(SimVerb::kWait), "wait");
  EXPECT_EQ(sim_verb_of("synchronize"), std::nullopt);
}

TEST_F(SimTest, ADeviceThatHasGoneStartsNothingNew) {
  driver_->set_devices(3);
  const Device two{.type = DeviceType::kExtDev, .id = 2};
  const auto context = driver_->open(two);
  const Queue queue = context->make_queue();
  Buffer buffer = context->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, queue);
  driver_->set_devices(2);
  EXPECT_THAT(message_of<NotFoundError>([&] { context->make_queue(); }), HasSubstr("no device sim:2 (ext_dev:2)"));
  EXPECT_THROW(context->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, queue), NotFoundError);
  EXPECT_THROW(context->copy(buffer.ref().slice(0, 8), buffer.ref().slice(8, 8), queue), NotFoundError);
  Event event = context->record(queue);
  EXPECT_NO_THROW(context->wait(event));
  EXPECT_NO_THROW(context->free(std::move(buffer), queue));
  driver_->set_devices(3);
  EXPECT_NO_THROW(context->make_queue());
}

// Counters

TEST_F(SimTest, CountsEveryVerb) {
  driver_->reset();
  Buffer buffer = allocate(1000);
  std::string bytes(600, 'x');
  context_->copy(buffer.ref().slice(0, 600), host(bytes), queue_);
  Event event = context_->record(queue_);
  context_->order_after(other_, event);
  context_->wait(event);
  context_->query(event);
  context_->describe(buffer.data());
  EXPECT_THROW(context_->export_memory(buffer.ref()), UnsupportedError);
  const SimCounters counters = driver_->counters();
  for (const SimVerb verb : {SimVerb::kAllocate, SimVerb::kCopy, SimVerb::kRecord, SimVerb::kOrderAfter, SimVerb::kWait,
                             SimVerb::kQuery, SimVerb::kDescribe, SimVerb::kExportMemory}) {
    EXPECT_EQ(counters.of(verb), 1u) << sim_verb_name(verb);
  }
  EXPECT_EQ(counters.total(), 8u);
  EXPECT_EQ(counters.bytes_allocated, 1000u);
  EXPECT_EQ(counters.bytes_copied, 600u);
  EXPECT_EQ(counters.live_allocations, 1u);
  EXPECT_EQ(counters.live_bytes, 1000u);
  driver_->reset();
  EXPECT_EQ(driver_->counters().total(), 0u);
  EXPECT_EQ(driver_->counters().live_bytes, 1000u);
  buffer = Buffer();
  EXPECT_EQ(driver_->counters().live_allocations, 0u);
  EXPECT_EQ(driver_->counters().live_bytes, 0u);
}

// Failures

TEST_F(SimTest, FailsTheVerbThatItWasToldTo) {
  driver_->fail_next(SimVerb::kAllocate, 1, ResourceError("no memory, as arranged"));
  EXPECT_NO_THROW(allocate(64));
  EXPECT_THAT(message_of<ResourceError>([&] { allocate(64); }), HasSubstr("as arranged"));
  EXPECT_NO_THROW(allocate(64));
  driver_->fail_next(SimVerb::kRecord, 0, SystemError("one"));
  driver_->fail_next(SimVerb::kRecord, 1, TimeoutError("two"));
  EXPECT_THROW(context_->record(queue_), SystemError);
  EXPECT_THROW(context_->record(queue_), TimeoutError);
  EXPECT_NO_THROW(context_->record(queue_));
  driver_->fail_next(SimVerb::kOpen, 0, SystemError("shut"));
  EXPECT_THROW(driver_->open(kZero), SystemError);
  driver_->fail_next(SimVerb::kCopy, 0, SystemError("never comes"));
  driver_->reset();
  const Buffer buffer = allocate(4);
  EXPECT_NO_THROW(upload(buffer.ref(), "fine"));
}

TEST_F(SimTest, FailedWorkIsCarriedByTheNextEvents) {
  const Buffer buffer = ready(4);
  upload(buffer.ref(), "good");
  driver_->fail_work(0, SystemError("the copy engine broke"));
  std::string text = "evil";
  context_->copy(buffer.ref(), host(text), queue_);
  const Event first = recorded(queue_);
  const Event second = recorded(queue_);
  EXPECT_THAT(message_of<SystemError>([&] { context_->wait(first); }), HasSubstr("engine broke"));
  EXPECT_THROW(context_->wait(second), SystemError) << "recorded before anybody knew";
  EXPECT_THROW(context_->query(first), SystemError) << "an event stays failed";
  ASSERT_NE(first.failure(), nullptr);
  EXPECT_EQ(failure_of(queue_), "") << "the queue goes on";
  EXPECT_EQ(download(buffer.ref()), "good");
}

TEST_F(SimTest, FailedWorkOfOneQueue) {
  const Buffer a = ready(4);
  const Buffer b = ready(4);
  std::string text = "text";
  driver_->fail_work(1, SystemError("second of the other"), &other_);
  context_->copy(a.ref(), host(text), queue_);
  context_->copy(a.ref(), host(text), queue_);
  context_->copy(b.ref(), host(text), other_);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_EQ(failure_of(other_), "");
  context_->copy(b.ref(), host(text), other_);
  EXPECT_THAT(failure_of(other_), HasSubstr("second of the other"));
}

TEST_F(SimTest, AFailureGoesOnToWhoIsOrderedAfterIt) {
  const Buffer buffer = ready(4);
  std::string text = "text";
  slow(std::chrono::milliseconds(5));
  driver_->fail_work(0, SystemError("up the stream"));
  context_->copy(buffer.ref(), host(text), queue_);
  const Event event = recorded(queue_);
  context_->order_after(other_, event);  // before it is known
  EXPECT_THAT(failure_of(other_), HasSubstr("up the stream"));
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_EQ(failure_of(queue_), "") << "it was thrown at somebody";
  EXPECT_THROW(context_->order_after(other_, event), SystemError) << "now it is known";
}

// Delay and threads

TEST_F(SimTest, WorkWaitsForTheDelay) {
  const Buffer buffer = ready(4);
  std::string text = "late";
  slow(std::chrono::milliseconds(30));
  const auto start = std::chrono::steady_clock::now();
  context_->copy(buffer.ref(), host(text), queue_);
  const Event event = recorded(queue_);
  const bool done = context_->query(event);
  const bool too_early = std::chrono::steady_clock::now() - start < std::chrono::milliseconds(30);
  EXPECT_FALSE(done && too_early);
  context_->wait(event);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
}

TEST_F(SimTest, TheDelayIsOncePerPipelineAndNotPerWork) {
  const Buffer buffer = ready(4);
  std::string text = "many";
  slow(std::chrono::milliseconds(20));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) context_->copy(buffer.ref(), host(text), queue_);
  finish(queue_);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(SimTest, AQueuesThreadLivesFromItsFirstWorkToItsEnd) {
  std::thread([] {}).join();  // with the first one a sanitizer starts one of its own
  const Threads before = threads();
  const Buffer buffer = allocate(4);
  {
    const Queue queue = context_->make_queue();
    context_->wait(context_->record(queue));
    EXPECT_THAT(new_threads(before), IsEmpty()) << "an idle queue needs none";
    std::string text = "text";
    context_->order_after(queue, recorded(queue_));
    context_->copy(buffer.ref(), host(text), queue);
    EXPECT_EQ(new_threads(before).size(), 1u);
    context_->wait(context_->record(queue));
  }
  EXPECT_TRUE(new_threads_end(before));
}

TEST_F(SimTest, AForkedChildIsRefused) {
  Buffer buffer = ready(4);
  upload(buffer.ref(), "text");
  const Event event = recorded(queue_);
  EXPECT_EQ(run_in_child([&] {
              std::string bytes(4, '?');
              int refused = 0;
              const auto expect_refused = [&](auto work) {
                try {
                  work();
                } catch (const ForkError&) {
                  ++refused;
                }
              };
              expect_refused([&] { context_->copy(host(bytes), buffer.ref(), queue_); });
              expect_refused([&] { context_->wait(event); });
              expect_refused([&] { allocate(4); });
              expect_refused([&] { context_->make_queue(); });
              expect_refused([&] { driver_->open(kZero); });
              buffer = Buffer();
              if (refused != 5) ::_exit(1);
            }),
            0);
  EXPECT_EQ(download(buffer.ref()), "text") << "the child took nothing away";
}

}  // namespace
}  // namespace crossdock::device
