// Tables that are made while their consumers wait for them.

#include "session/table_task.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/session/runtime.h"
#include "session/host_copy.h"
#include "support/batches.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

using State = ServerStream::State;

std::shared_ptr<const PublishedTable> numbers(int batches, std::int64_t rows) {
  return publish_stream(*testing::number_stream(batches, rows), Runtime(), {});
}

std::shared_ptr<ConnectionWaker> a_waker() {
  return std::make_shared<ConnectionWaker>(std::make_shared<Waker>(), nullptr);
}

TEST(TableTaskStreamTest, GoesByTheWayThatItsMemoryCanGoOnceItIsMade) {
  constexpr WayAnswer kRead = {transport::Way::kRead, "the plan"};
  for (const bool refused : {false, true}) {
    const auto copy = std::make_shared<HostCopy>(numbers(2, 100));
    const auto waker = a_waker();
    copy->step();
    int asked = 0;
    TableTaskStream stream(copy, waker, kRead, [&](const std::shared_ptr<const PublishedTable>& made) {
      ++asked;
      EXPECT_EQ(copy->get(), made);
      return std::make_unique<TableStream>(made, refused ? kByMessage : kRead);
    });
    EXPECT_EQ(stream.way().way, transport::Way::kRead);
    Outgoing out;
    int by_value = 0;
    int bodies = 0;
    for (; stream.peek(&out) == ServerStream::State::kReady; stream.pop()) {
      bodies += out.has_body;
      by_value += out.has_body && out.by_value;
      out = {};
    }
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(bodies, 2);
    EXPECT_EQ(by_value, refused ? 2 : 0);
    EXPECT_EQ(stream.way().way, refused ? transport::Way::kMessage : transport::Way::kRead);
  }
}

TEST(TableTaskStreamTest, EndsWithTheErrorOfWhatFollows) {
  const auto copy = std::make_shared<HostCopy>(numbers(1, 1));
  const auto waker = a_waker();
  copy->step();
  TableTaskStream stream(copy, waker, {transport::Way::kRead, "the plan"},
                         [](const std::shared_ptr<const PublishedTable>&) -> std::unique_ptr<ServerStream> {
                           throw UnsupportedError("no way is left");
                         });
  Outgoing out;
  EXPECT_THROW(stream.peek(&out), UnsupportedError);
}

/// Announces a schema, then lets a test look, then gives a table.
class Announced final : public TableTask {
 public:
  Announced(std::shared_ptr<const array::Schema> schema, std::shared_ptr<const PublishedTable> table)
      : schema_(std::move(schema)), table_(std::move(table)) {}
  std::function<void()> meanwhile = [] {};

 protected:
  std::shared_ptr<const PublishedTable> make() override {
    announce(*schema_, -1);
    meanwhile();
    return table_;
  }

 private:
  const std::shared_ptr<const array::Schema> schema_;
  const std::shared_ptr<const PublishedTable> table_;
};

TableTaskStream stream_of(const std::shared_ptr<TableTask>& task) {
  return {task, a_waker(), kByMessage, [](const std::shared_ptr<const PublishedTable>& table) {
            return std::make_unique<TableStream>(table, kByMessage);
          }};
}

TEST(TableTaskStreamTest, SendsTheSchemaBeforeTheTableIsMadeAndOnceOnly) {
  const auto table = numbers(2, 10);
  const auto task = std::make_shared<Announced>(table->schema, table);
  auto waits = stream_of(task);
  auto late = stream_of(task);
  EXPECT_FALSE(waits.has_begun());
  task->meanwhile = [&] {
    Outgoing out;
    ASSERT_EQ(waits.peek(&out), State::kReady);
    EXPECT_FALSE(out.has_body);
    EXPECT_TRUE(waits.has_begun());
    waits.pop();
    EXPECT_EQ(waits.peek(&out), State::kLater);
  };
  task->step();
  for (auto [stream, schemas] : {std::pair{&waits, 0}, {&late, 1}}) {
    Outgoing out;
    int bodies = 0;
    int others = 0;
    for (; stream->peek(&out) == State::kReady; stream->pop()) {
      bodies += out.has_body;
      others += !out.has_body;
      out = {};
    }
    EXPECT_EQ(bodies, 2);
    EXPECT_EQ(others, schemas);
  }
}

TEST(TableTaskStreamTest, ATableOfAnotherSchemaEndsTheStreamsThatHaveOne) {
  const auto task =
      std::make_shared<Announced>(testing::make_schema({{"other", array::TypeId::kUtf8}}), numbers(1, 10));
  auto waits = stream_of(task);
  auto late = stream_of(task);
  task->meanwhile = [&] {
    Outgoing out;
    ASSERT_EQ(waits.peek(&out), State::kReady);
    waits.pop();
  };
  task->step();
  Outgoing out;
  EXPECT_THROW(waits.peek(&out), UpstreamError);
  EXPECT_EQ(late.peek(&out), State::kReady);
}

}  // namespace
}  // namespace crossdock::session
