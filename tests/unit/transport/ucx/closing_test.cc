// Ends that live on after their connection was destroyed, in the care of a listener.
#include "transport/ucx/closing.h"

#include <gtest/gtest.h>

#include <utility>

#include "support.h"
#include "transport/ucx/control.h"

namespace crossdock::transport::ucx_test {
namespace {

/// Hands the server's end over, whose peer hasn't taken a message.
std::unique_ptr<ClosingEnd> closing_end(Ends& ends) {
  EXPECT_TRUE(ends.server.endpoint->send_untagged(as_bytes("x"), {}));
  return std::make_unique<UcxClosingEnd>(std::move(ends.server.worker), std::move(ends.server.endpoint),
                                         UcxClosingEnd::Until::kTaken, nullptr, /*sent=*/1);
}

/// The system may refuse to watch one more descriptor.
TEST(UcxClosingEnds, OneThatCannotBeWatchedCostsNoOther) {
  Ends first;
  Ends second;
  UcxContexts contexts{UcxOptions{}};
  const auto listener = listen_at(contexts, "");
  AcceptPoll poll(listener->descriptor(), "a test");
  ClosingEnds closing;
  std::unique_ptr<ClosingEnd> unwatched = closing_end(first);
  std::unique_ptr<ClosingEnd> watched = closing_end(second);
  bool news = false;
  poll.watch(unwatched->descriptor(), &news);  // so that the system refuses to watch it again
  ASSERT_TRUE(closing.add(unwatched));
  ASSERT_TRUE(closing.add(watched));
  EXPECT_NO_THROW(closing.advance(poll));
  ASSERT_TRUE(closing.deadline());
  for (Ends* const ends : {&first, &second}) {
    bool message = false;
    bool goodbye = false;
    const auto deadline = Clock::now() + ClosingEnd::kLongest / 2;
    while (!goodbye && Clock::now() < deadline) {
      ends->client.worker->progress();
      while (const std::optional<Received> got = ends->client.worker->take()) {
        message = message || got->kind == MessageKind::kUntagged;
        goodbye = got->kind == MessageKind::kControl;
      }
      closing.advance(poll);
    }
    EXPECT_TRUE(message);
    EXPECT_TRUE(goodbye);
    EXPECT_EQ(ends->client.endpoint->failure(), std::nullopt) << "its server's end was dropped";
    ASSERT_TRUE(ends->client.endpoint->send_control(encode(Control{ControlKind::kTaken, 1})));
  }
  const auto all_over = [&] {
    closing.advance(poll);
    return !closing.deadline();
  };
  EXPECT_TRUE(run_until({first.client.worker.get(), second.client.worker.get()}, listener.get(), all_over, 5000));
  closing.stop(poll);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
