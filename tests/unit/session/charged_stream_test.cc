// What batches cost before a table has them.

#include "session/charged_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "session/table_version.h"
#include "support/batches.h"

namespace crossdock::session {
namespace {

/// Gives the same batch again and again.
class Endless final : public array::BatchStream {
 public:
  explicit Endless(array::RecordBatch batch) : batch_(std::move(batch)) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return batch_.schema; }
  std::optional<array::RecordBatch> next() override { return batch_; }

 private:
  const array::RecordBatch batch_;
};

array::RecordBatch a_batch(std::int64_t rows) { return *testing::number_stream(1, rows)->next(); }

TEST(ChargedStream, TellsTheBytesOfEachBatch) {
  std::vector<BatchCost> told;
  ChargedStream stream(testing::number_stream(2, 100), [&](const BatchCost& cost) { told.push_back(cost); });
  while (stream.next()) {
  }
  ASSERT_EQ(told.size(), 2U);
  for (const BatchCost& cost : told) {
    EXPECT_GE(cost.buffers, 800U);
    EXPECT_GT(cost.messages, 100U);
  }
}

TEST(ChargedStream, BatchesWithoutRowsHaveAnEnd) {
  const auto stream = bounded(std::make_unique<Endless>(a_batch(0)), 1 << 20);
  int batches = 0;
  EXPECT_THROW(for (; batches < 100'000; ++batches) stream->next(), ResourceError);
  EXPECT_GT(batches, 500);
  EXPECT_THROW(stream->next(), ResourceError) << "an error is permanent";
}

TEST(ChargedStream, WithoutALimitNothingIsCharged) {
  auto endless = std::make_unique<Endless>(a_batch(0));
  const auto* const same = endless.get();
  EXPECT_EQ(bounded(std::move(endless), 0).get(), same);
}

TEST(ChargedStream, ADictionaryIsChargedWhenItIsNew) {
  auto values = std::make_shared<array::RecordBatch>(a_batch(1000));
  array::RecordBatch batch = a_batch(1);
  batch.dictionaries = {values, nullptr};
  std::vector<std::uint64_t> told;
  ChargedStream stream(std::make_unique<Endless>(batch), [&](const BatchCost& cost) { told.push_back(cost.buffers); });
  stream.next();
  stream.next();
  EXPECT_GE(told.at(0), 8000U);
  EXPECT_LT(told.at(1), 1000U);
}

TEST(ChargedStream, ADictionaryInsideAnotherMayBeMissing) {
  // A peer may leave it out where none of its values is used.
  auto values = std::make_shared<array::RecordBatch>(a_batch(10));
  values->dictionaries = {nullptr};
  array::RecordBatch batch = a_batch(1);
  batch.dictionaries = {values};
  ChargedStream stream(std::make_unique<Endless>(batch), [](const BatchCost&) {});
  EXPECT_TRUE(stream.next());
}

TEST(TableVersion, IsWhatTheMessageSays) {
  EXPECT_EQ(version_in({}), -1);
  for (const char* text : {"", "-1", "x", "1x", " 1", "9223372036854775808"}) {
    EXPECT_EQ(version_in({{kVersionKey, text}}), -1) << text;
  }
  EXPECT_EQ(version_in({{"other", "1"}, {kVersionKey, "9223372036854775807"}}), INT64_MAX);
  EXPECT_EQ(version_in({{kVersionKey, "0"}}), 0);
}

}  // namespace
}  // namespace crossdock::session
