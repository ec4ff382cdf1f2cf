#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/library.h"
#include "device/sycl/sycl_context.h"

namespace crossdock::device::sycl {
namespace {

/// A run time with one device and one queue. It holds back what is put on the queue, as DPC++ holds back work behind a
/// host task: only a wait for the queue runs it. A barrier of an out-of-order queue knows nothing of such work, and its
/// event is over at once. Real SYCL does so at times only.
struct FakeSycl {
  bool in_order = false;
  std::deque<std::function<void()>> held_back;
  int waits = 0;
  int waits_before_barrier = 0;
  int frees = 0;

  void run_all() {
    for (; !held_back.empty(); held_back.pop_front()) held_back.front()();
  }
};

FakeSycl* fake = nullptr;
int device_object = 0;
int context_object = 0;
int queue_object = 0;
std::array<int, 2> event_objects{};  // of work that is over, and of work that is held back

template <typename Ref>
Ref as(int& object) {
  return reinterpret_cast<Ref>(&object);
}

Api fake_api() {
  Api api;
  api.get_devices = [](int) { return as<DevicesRef>(device_object); };
  api.devices_size = [](DevicesRef) { return std::size_t{1}; };
  api.devices_at = [](DevicesRef, std::size_t) { return as<DeviceRef>(device_object); };
  api.devices_delete = [](DevicesRef) {};
  api.device_position = [](DeviceRef, int) { return 0; };
  api.device_delete = [](DeviceRef) {};
  api.device_equal = [](DeviceRef, DeviceRef) { return true; };
  api.device_has = [](DeviceRef, int) { return true; };
  api.device_context = [](DeviceRef) { return as<ContextRef>(context_object); };
  api.context_delete = [](ContextRef) {};
  api.context_equal = [](ContextRef, ContextRef) { return true; };
  api.queue_hash = [](QueueRef) { return std::size_t{1}; };
  api.queue_equal = [](QueueRef, QueueRef) { return true; };
  api.queue_copy = [](QueueRef queue) { return queue; };
  api.queue_delete = [](QueueRef) {};
  api.queue_context = [](QueueRef) { return as<ContextRef>(context_object); };
  api.queue_device = [](QueueRef) { return as<DeviceRef>(device_object); };
  api.queue_is_in_order = [](QueueRef) { return fake->in_order; };
  api.queue_has_profiling = [](QueueRef) { return false; };
  api.queue_wait = [](QueueRef) {
    ++fake->waits;
    fake->run_all();
  };
  api.queue_barrier = [](QueueRef) {
    fake->waits_before_barrier = fake->waits;
    const bool pending = fake->in_order && !fake->held_back.empty();
    return as<EventRef>(event_objects.at(pending ? 1 : 0));
  };
  api.queue_memcpy = [](QueueRef, void* to, const void* from, std::size_t size) {
    const auto copy = [=] { std::memcpy(to, from, size); };
    if (!fake->in_order || fake->held_back.empty()) {  // starts at once, before all that is held back
      copy();
      return as<EventRef>(event_objects[0]);
    }
    fake->held_back.emplace_back(copy);
    return as<EventRef>(event_objects[1]);
  };
  api.event_delete = [](EventRef) {};
  api.event_status = [](EventRef event) {
    return event == as<EventRef>(event_objects[0]) || fake->held_back.empty() ? kStatusComplete : 1;
  };
  api.event_wait = [](EventRef event) {
    if (event == as<EventRef>(event_objects[1])) fake->run_all();
  };
  api.alloc_host = [](std::size_t, std::size_t size, QueueRef) { return ::operator new(size); };
  api.free = [](void* memory, ContextRef) {
    ++fake->frees;
    ::operator delete(memory);
  };
  api.pointer_type = [](void*, ContextRef) { return kTypeHost; };
  return api;
}

class QueueThatHoldsWorkBack : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fake = &sycl_;
    sycl_.in_order = GetParam();
    // The driver keeps a library loaded while it is used; this one is there anyhow.
    library_ = std::make_shared<SyclLibrary>(Library::open({"libc.so.6"}, nullptr), fake_api());
    context_ = std::make_unique<SyclContext>(library_, 0, nullptr, library_->own(as<DeviceRef>(device_object)));
    queue_ = context_->wrap_queue(NativeQueue(&queue_object), nullptr);
  }
  void TearDown() override {
    queue_.reset();
    context_.reset();
    library_->queues().close();
    library_.reset();
    fake = nullptr;
  }
  void put_work_that_writes(std::string& text) {
    sycl_.held_back.emplace_back([&text] { text = "new"; });
  }

  FakeSycl sycl_;
  std::shared_ptr<SyclLibrary> library_;
  std::unique_ptr<SyclContext> context_;
  std::optional<Queue> queue_;
};

TEST_P(QueueThatHoldsWorkBack, HasEventsThatComeAfterAllOfIt) {
  std::string text = "old";
  put_work_that_writes(text);
  const Event event = context_->record(*queue_);
  if (sycl_.in_order) {
    EXPECT_FALSE(context_->query(event));
    EXPECT_EQ(sycl_.waits, 0) << "an in-order queue isn't waited for";
  } else {
    EXPECT_TRUE(context_->query(event));
    EXPECT_EQ(sycl_.waits, 1);
    EXPECT_EQ(sycl_.waits_before_barrier, 0) << "SYCL tells a failure of the work by the event of a barrier behind it";
  }
  context_->wait(event);
  EXPECT_EQ(text, "new");
}

TEST_P(QueueThatHoldsWorkBack, CopiesAfterAllOfIt) {
  std::string text = "old";
  std::string seen = "???";
  put_work_that_writes(text);
  const BufferRef from{.data = text.data(), .size = 3, .device = {}, .kind = MemoryKind::kHost};
  const BufferRef to{.data = seen.data(), .size = 3, .device = {}, .kind = MemoryKind::kHost};
  context_->wait(context_->copy_recorded(to, from, *queue_));
  EXPECT_EQ(seen, "new");
  EXPECT_EQ(sycl_.waits, sycl_.in_order ? 0 : 1);
}

TEST_P(QueueThatHoldsWorkBack, FreesMemoryAfterAllOfIt) {
  context_->free(context_->allocate(8, MemoryKind::kHost, Sharing::kPrivate, *queue_), *queue_);
  int frees_when_it_ran = -1;
  sycl_.held_back.emplace_back([&] { frees_when_it_ran = sycl_.frees; });
  const Event none_pending(NativeEvent(event_objects.data()), nullptr);
  EXPECT_TRUE(context_->query(none_pending));
  EXPECT_TRUE(context_->query(none_pending));
  EXPECT_EQ(sycl_.frees, 0);
  EXPECT_EQ(sycl_.waits, 0) << "a query waits for nothing";

  context_->wait(context_->record(*queue_));
  EXPECT_EQ(frees_when_it_ran, 0);
  EXPECT_EQ(sycl_.frees, 1);
}

TEST_P(QueueThatHoldsWorkBack, IsNotWaitedForWhereItComesAfterAnEvent) {
  context_->free(context_->allocate(8, MemoryKind::kHost, Sharing::kPrivate, *queue_), *queue_);
  sycl_.held_back.emplace_back([] {});
  context_->order_after(*queue_, Event(NativeEvent(event_objects.data()), nullptr));
  EXPECT_EQ(sycl_.waits, 0);
  EXPECT_EQ(sycl_.held_back.size(), 1u);
}

TEST_P(QueueThatHoldsWorkBack, LosesNoMemoryThatWasFreedThere) {
  context_->free(context_->allocate(8, MemoryKind::kHost, Sharing::kPrivate, *queue_), *queue_);
  sycl_.held_back.emplace_back([] {});
  const Buffer next = context_->allocate(8, MemoryKind::kHost, Sharing::kPrivate, *queue_);
  EXPECT_EQ(sycl_.frees, sycl_.in_order ? 0 : 1);
}

INSTANTIATE_TEST_SUITE_P(Sycl, QueueThatHoldsWorkBack, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "InOrder" : "OutOfOrder"; });

}  // namespace
}  // namespace crossdock::device::sycl
