#include "crossdock/core/error.h"
#include "suite.h"
#include "transport/memory.h"

namespace crossdock::transport::conformance {
namespace {

Implementation memory(std::string name, Ways ways) {
  Implementation out;
  out.name = std::move(name);
  out.base = [](std::uint16_t number, const device::Region&) { return (std::uint64_t{number} + 1) << 44; };
  out.connect = [ways](const Wishes& wishes) {
    MemoryOptions options;
    options.ways = ways;
    options.reads = [](std::uint64_t n) { return static_cast<int>(n * 7 % 5); };  // out of order
    options.max_message = wishes.max_message;
    if (wishes.small_queue) options.queue_messages = 3;
    return memory_pair(wishes.agreement, options);
  };
  return out;
}

INSTANTIATE_TEST_SUITE_P(Memory, TransportConformance,
                         ::testing::Values(memory("mapped", Way::kMap | Way::kMessage),
                                           memory("read", Way::kRead | Way::kMessage),
                                           memory("message", Way::kMessage)),
                         implementation_name);

TEST(Memory, RefusesAQueueWithoutRoom) {
  MemoryOptions options;
  options.queue_messages = 0;
  EXPECT_THROW(memory_pair({}, options), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::transport::conformance
