// Queues by name.
#include "crossdock/device/registry.h"
#include "crossdock/session/runtime.h"
#include "samples.h"

namespace crossdock::testing {
namespace {

class CQueue : public CApi {
 protected:
  void find(const char* filter, const char* name, crossdock_queue** queue) {
    ASSERT_TRUE(ok(crossdock_queue_find(crossdock_str(filter), crossdock_str(name), queue, &error_)));
  }
};

TEST_F(CQueue, OfTheHost) {
  Queue queue;
  find("host", "", &queue);
  EXPECT_EQ(crossdock_queue_device_type(queue), ARROW_DEVICE_CPU);
  EXPECT_EQ(crossdock_queue_native(queue), nullptr);
  EXPECT_EQ(crossdock_queue_native_context(queue), nullptr);
  EXPECT_STREQ(crossdock_queue_filter(queue), "host:cpu:0");
}

TEST_F(CQueue, IsTheSameForEveryCaller) {
  Queue one;
  Queue other;
  find("host", "", &one);
  find("host:cpu:0", "", &other);
  EXPECT_EQ(crossdock_queue_equal(one, other), 1);
  const auto in_cpp = session::Runtime::default_runtime()->queues()->queue("host");
  EXPECT_EQ(in_cpp.native(), crossdock_queue_native(one));
  EXPECT_EQ(in_cpp.device().id, crossdock_queue_device_id(one));
  Queue unnamed;
  find("", "", &unnamed);
  const auto chosen = session::Runtime::default_runtime()->queues()->default_queue();
  EXPECT_EQ(crossdock_queue_device_type(unnamed), static_cast<int>(chosen.device().type));
}

TEST_F(CQueue, AWrongNameSaysWhatThereIs) {
  crossdock_queue* queue = nullptr;
  EXPECT_TRUE(
      failed(crossdock_queue_find(crossdock_str("no filter"), {}, &queue, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT));
  EXPECT_TRUE(
      failed(crossdock_queue_find(crossdock_str("host:gpu"), {}, &queue, &error_), CROSSDOCK_ERROR_NOT_FOUND, "host"));
  EXPECT_TRUE(failed(crossdock_queue_find({"\xff\xfe", 2}, {}, &queue, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT));
  EXPECT_EQ(queue, nullptr);
}

TEST_F(CQueue, NothingIsNoQueue) {
  Queue queue;
  find("host", "", &queue);
  EXPECT_EQ(crossdock_queue_equal(nullptr, nullptr), 0);
  EXPECT_EQ(crossdock_queue_equal(queue, nullptr), 0);
  EXPECT_EQ(crossdock_queue_native(nullptr), nullptr);
  EXPECT_EQ(crossdock_queue_native_context(nullptr), nullptr);
  EXPECT_EQ(crossdock_queue_device_type(nullptr), 0);
  EXPECT_EQ(crossdock_queue_device_id(nullptr), -1);
  EXPECT_STREQ(crossdock_queue_filter(nullptr), "");
}

}  // namespace
}  // namespace crossdock::testing
