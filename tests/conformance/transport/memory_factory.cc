#include "crossdock/core/error.h"
#include "suite.h"
#include "transport/memory.h"

namespace crossdock::transport::conformance {
namespace {

Implementation memory() {
  Implementation out;
  out.name = "memory";
  out.connect = [](const Wishes& wishes) {
    MemoryOptions options;
    options.max_message = wishes.max_message;
    if (wishes.small_queue) options.queue_messages = 3;
    return memory_pair(wishes.agreement, options);
  };
  return out;
}

INSTANTIATE_TEST_SUITE_P(Memory, TransportConformance, ::testing::Values(memory()), implementation_name);

TEST(Memory, RefusesAQueueWithoutRoom) {
  MemoryOptions options;
  options.queue_messages = 0;
  EXPECT_THROW(memory_pair({}, options), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::transport::conformance
