#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "allocation_count.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/message_of.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using test::ArrayTest;
using test::dictionary_of;
using test::field;
using ::testing::HasSubstr;

class CheckStructure : public ArrayTest {
 protected:
  CheckStructure() {
    const std::vector<Field> fields = {
        field("i", TypeId::kInt32),                                      // node 0, buffers 0-1
        field("u", TypeId::kUtf8),                                       // node 1, buffers 2-4
        field("l", TypeId::kLargeList, {field("item", TypeId::kBool)}),  // nodes 2-3, buffers 5-6, 7-8
        test::fixed_size_list("f", 2, field("item", TypeId::kInt8)),     // nodes 4-5, buffers 9, 10-11
        field("s", TypeId::kStruct, {field("n", TypeId::kNull)}),        // nodes 6-7, buffer 12
        dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8)),     // node 8, buffers 13-14
    };
    ArrowDeviceArray array = test::on_host(test::make_struct(fields, 10, 0, true));
    batch_ = import_batch(std::make_shared<Schema>(fields), &array);
  }

  void TearDown() override {
    batch_ = RecordBatch{};
    ArrayTest::TearDown();
  }

  template <typename Change>
  std::string refused(Change change) {
    RecordBatch bad = batch_;
    change(bad);
    return message_of<InvalidDataError>([&] { check_structure(bad); });
  }

  RecordBatch batch_;
};

TEST_F(CheckStructure, PassesWhatIsRightWithoutAllocating) {
  const std::int64_t before = test::allocations();
  check_structure(batch_);
  EXPECT_EQ(test::allocations(), before);
}

TEST_F(CheckStructure, FindsEachBufferThatIsTooSmall) {
  for (const auto& [buffer, path] : std::vector<std::pair<std::size_t, const char*>>{{0, "i"},
                                                                                     {1, "i"},
                                                                                     {2, "u"},
                                                                                     {3, "u"},
                                                                                     {4, "u"},
                                                                                     {5, "l"},
                                                                                     {6, "l"},
                                                                                     {7, "l.item"},
                                                                                     {8, "l.item"},
                                                                                     {9, "f"},
                                                                                     {10, "f.item"},
                                                                                     {11, "f.item"},
                                                                                     {12, "s"},
                                                                                     {13, "d"},
                                                                                     {14, "d"}}) {
    const std::size_t b = buffer;
    EXPECT_THAT(refused([b](RecordBatch& bad) { bad.buffers[b].size -= 1; }),
                HasSubstr("field \"" + std::string(path) + "\": its "))
        << b;
    EXPECT_THAT(refused([b](RecordBatch& bad) { bad.buffers[b].data = nullptr; }),
                HasSubstr("field \"" + std::string(path) + "\": its "))
        << b;
    EXPECT_THAT(refused([b](RecordBatch& bad) { bad.buffers[b].size = -1; }), HasSubstr("size of -1")) << b;
  }
}

TEST_F(CheckStructure, FindsMissingValidity) {
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.buffers[0] = {}; }),
              HasSubstr("field \"i\": null count 3, but there is no"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.buffers[0] = {};
                bad.nodes[0].null_count = -1;
              }),
              HasSubstr("null count -1, but there is no"));
  batch_.nodes[0].null_count = -1;
  check_structure(batch_);
  batch_.nodes[0].null_count = 0;
  batch_.buffers[0] = {};
  check_structure(batch_);
}

TEST_F(CheckStructure, FindsLengthsThatDisagree) {
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[0].length = 9; }), HasSubstr("length 9, but the batch has 10"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[0].length = 11; }), HasSubstr("the batch has 10"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.nodes[3].length = 1;
                bad.nodes[3].null_count = 0;
              }),
              HasSubstr("field \"l.item\": length 1, but its parent needs"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[5].length = 19; }), HasSubstr("field \"f.item\": length 19"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.nodes[7].length = 9;
                bad.nodes[7].null_count = 9;
              }),
              HasSubstr("field \"s.n\": length 9"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.num_rows = -1; }), HasSubstr("-1 rows"));
}

TEST_F(CheckStructure, SurvivesNumbersThatOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::size_t node = 0; node < batch_.nodes.size(); ++node) {
    if (node == 7) continue;  // The null type has no buffer to be too small.
    for (const std::int64_t huge : {kMost, kMost - 1, kMost / 2, kMost / 4 + 1, std::int64_t{1} << 40}) {
      const auto at = [&](std::int64_t length, std::int64_t offset) {
        return refused([&](RecordBatch& bad) {
          bad.nodes[node].length = length;
          bad.nodes[node].offset = offset;
        });
      };
      EXPECT_THAT(at(huge, 0), HasSubstr("field \"")) << node;
      EXPECT_THAT(at(batch_.nodes[node].length, huge), HasSubstr("field \"")) << node;
    }
  }
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.nodes[0].length = kMost;
                bad.nodes[0].offset = 1;
              }),
              HasSubstr("are invalid"));
}

TEST_F(CheckStructure, ReadsOffsetsAtAnyAlignment) {
  std::vector<std::byte> memory(static_cast<std::size_t>(batch_.buffers[3].size) + 1);
  std::memcpy(memory.data() + 1, batch_.buffers[3].data, memory.size() - 1);
  batch_.buffers[3].data = memory.data() + 1;
  check_structure(batch_);
}

TEST_F(CheckStructure, AnEmptyColumnMayLackItsOffsetsButNotLieInThem) {
  RecordBatch empty;
  empty.schema = std::make_shared<Schema>(std::vector<Field>{field("u", TypeId::kUtf8)});
  empty.nodes.resize(1);
  empty.buffers.resize(3);
  check_structure(empty);
  const std::int32_t lie = 100;
  empty.buffers[1] = {&lie, sizeof lie};
  EXPECT_THAT(message_of<InvalidDataError>([&] { check_structure(empty); }), HasSubstr("length needs 100"));
}

TEST_F(CheckStructure, DictionariesMayBeMissingOnlyWhereNothingPoints) {
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.dictionaries[0] = nullptr; }),
              HasSubstr("field \"d\": it has indices but its dictionary (id 0) is missing"));
  RecordBatch all_null = batch_;
  all_null.dictionaries[0] = nullptr;
  all_null.nodes[8].null_count = 10;
  check_structure(all_null);
}

TEST_F(CheckStructure, LooksIntoDictionaries) {
  EXPECT_THAT(refused([](RecordBatch& bad) {
                auto dictionary = std::make_shared<RecordBatch>(*bad.dictionaries[0]);
                dictionary->buffers[1].size = 3;
                bad.dictionaries[0] = dictionary;
              }),
              HasSubstr("field \"d.dictionary\": its offsets buffer has 3 bytes"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                auto dictionary = std::make_shared<RecordBatch>(*bad.dictionaries[0]);
                dictionary->schema = std::make_shared<Schema>(std::vector<Field>{field("", TypeId::kBinary)});
                bad.dictionaries[0] = dictionary;
              }),
              HasSubstr("not of the schema's type, utf8"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                auto dictionary = std::make_shared<RecordBatch>(*bad.dictionaries[0]);
                dictionary->nodes.clear();
                bad.dictionaries[0] = dictionary;
              }),
              HasSubstr("field \"d\": the batch has 0 nodes"));
}

TEST_F(CheckStructure, FindsWrongCounts) {
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes.pop_back(); }), HasSubstr("8 nodes"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.buffers.push_back({}); }), HasSubstr("16 buffers"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.dictionaries.clear(); }), HasSubstr("0 dictionaries"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.schema = nullptr; }), HasSubstr("no schema"));
}

TEST_F(CheckStructure, ReadsNothingOfAnotherDevice) {
  batch_.device = {.type = device::DeviceType::kCuda, .id = 0};
  batch_.buffers[3].data = reinterpret_cast<const void*>(std::uintptr_t{64});
  auto dictionary = std::make_shared<RecordBatch>(*batch_.dictionaries[0]);
  dictionary->device = batch_.device;
  dictionary->buffers[1].data = reinterpret_cast<const void*>(std::uintptr_t{64});
  batch_.dictionaries[0] = dictionary;
  check_structure(batch_);
}

TEST_F(CheckStructure, OnlySizesThatCantBeReadMayBeUnknown) {
  const auto unknown = [this](std::size_t buffer, device::DeviceType type) {
    return refused([&](RecordBatch& bad) {
      bad.device = {.type = type, .id = 0};
      bad.buffers[buffer].size = kUnknownSize;
    });
  };
  for (std::size_t buffer = 0; buffer < batch_.buffers.size(); ++buffer) {
    if (batch_.buffers[buffer].data == nullptr) continue;
    EXPECT_THAT(unknown(buffer, device::DeviceType::kCpu), HasSubstr("has a size of -1")) << buffer;
  }
  EXPECT_THAT(unknown(1, device::DeviceType::kCuda), HasSubstr("has a size of -1"));
}

/// A batch of one column of each field of every_type(), one after the other.
template <typename Look>
void for_every_type(Look look) {
  for (const Field& of : test::every_type()) {
    ArrowDeviceArray array = test::on_host(test::make_struct({of}, 10, 3, true));
    look(import_batch(std::make_shared<Schema>(std::vector<Field>{of}), &array));
  }
}

/// Whether buffer `wanted` of a batch is one of a view's variadic ones.
bool is_variadic(const RecordBatch& batch, std::size_t wanted) {
  BufferCursor at(batch.variadic_counts);
  for (const LayoutNode& node : batch.schema->nodes()) {
    at.enter(node);
    if (wanted < at.end()) return wanted >= at.end() - at.n_variadic();
  }
  return false;
}

TEST_F(CheckStructure, EveryBufferOfEveryTypeMustBeThereAndLongEnough) {
  int looked = 0;
  for_every_type([&](const RecordBatch& batch) {
    check_structure(batch);
    const std::string& name = batch.schema->fields()[0].name;
    for (std::size_t b = 0; b < batch.buffers.size(); ++b) {
      if (batch.buffers[b].size == 0) continue;
      const auto with = [&](BufferView view) {
        RecordBatch bad = batch;
        bad.buffers[b] = view;
        return message_of<InvalidDataError>([&] { check_structure(bad); });
      };
      ++looked;
      EXPECT_THAT(with({nullptr, batch.buffers[b].size}), HasSubstr(name)) << name << " " << b;
      EXPECT_THAT(with({batch.buffers[b].data, -1}), HasSubstr("size of -1")) << name << " " << b;
      if (is_variadic(batch, b)) continue;  // How long they must be, the views say: check_full.
      EXPECT_THAT(with({batch.buffers[b].data, batch.buffers[b].size - 1}), HasSubstr("length needs"))
          << name << " " << b;
    }
  });
  EXPECT_GT(looked, 200);
}

TEST_F(CheckStructure, AbsurdNumbersOfEveryTypeAreRefusedOrHarmless) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for_every_type([&](const RecordBatch& batch) {
    for (std::size_t node = 0; node < batch.nodes.size(); ++node) {
      for (const std::int64_t absurd :
           {kMost, kMost - 1, kMost / 2 + 1, kMost / 16 + 1, std::int64_t{-1}, -kMost - 1}) {
        for (std::int64_t Node::*const number : {&Node::length, &Node::offset, &Node::null_count}) {
          RecordBatch bad = batch;
          bad.nodes[node].*number = absurd;
          try {
            check_structure(bad);
            // Only what takes no memory may be of any length, and only an unknown null count is negative.
            if (number == &Node::null_count) {
              EXPECT_TRUE(absurd == -1);
            } else {
              EXPECT_TRUE(absurd > 0);
              EXPECT_EQ(batch.schema->nodes()[node].type.n_buffers, 0) << batch.schema->fields()[0].name;
            }
          } catch (const InvalidDataError& error) {
            EXPECT_THAT(error.what(), HasSubstr("field \""));
          }
        }
      }
    }
  });
}

TEST_F(CheckStructure, VariadicCountsMustFit) {
  ArrowDeviceArray array =
      test::on_host(test::make_struct({field("v", TypeId::kUtf8View), field("w", TypeId::kBinaryView)}, 4, 0, true));
  const RecordBatch batch = import_batch(
      std::make_shared<Schema>(std::vector<Field>{field("v", TypeId::kUtf8View), field("w", TypeId::kBinaryView)}),
      &array);
  ASSERT_EQ(batch.variadic_counts, (std::vector<std::int64_t>{2, 2}));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<std::int64_t>& counts : std::vector<std::vector<std::int64_t>>{
           {}, {2}, {2, 2, 0}, {2, 1}, {2, 3}, {-1, 5}, {5, -1}, {kMost, kMost}, {kMost, 5}, {-kMost, -kMost}}) {
    RecordBatch bad = batch;
    bad.variadic_counts = counts;
    EXPECT_FALSE(bad.counts_fit());
    EXPECT_THAT(message_of<InvalidDataError>([&] { check_structure(bad); }), HasSubstr("variadic counts"));
  }
  RecordBatch moved = batch;
  moved.variadic_counts = {1, 3};  // As many, but the second view's buffers are then of the first's sizes.
  EXPECT_TRUE(moved.counts_fit());
  EXPECT_THAT(message_of<InvalidDataError>([&] { check_structure(moved); }), HasSubstr("field \"w\""));
}

TEST_F(CheckStructure, RunsMustReachTheEndOfTheirNode) {
  const std::int32_t ends[] = {3, 9};
  RecordBatch batch;
  batch.schema = std::make_shared<Schema>(
      std::vector<Field>{test::run_end_encoded("r", TypeId::kInt32, field("values", TypeId::kNull))});
  batch.num_rows = 9;
  batch.nodes = {{9, 0, 0}, {2, 0, 0}, {2, 2, 0}};
  batch.buffers = {{}, {ends, sizeof ends}};
  check_structure(batch);
  const auto refused = [&](auto change) {
    RecordBatch bad = batch;
    change(bad);
    return message_of<InvalidDataError>([&] { check_structure(bad); });
  };
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.num_rows = bad.nodes[0].length = 10; }),
              HasSubstr("field \"r.run_ends\": the last run ends at 9, before the end of its parent, 10"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[0].offset = 1; }),
              HasSubstr("before the end of its parent, 10"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[1].length = 1; }), HasSubstr("the last run ends at 3"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[1].length = 0; }), HasSubstr("its parent needs 1"));
  EXPECT_THAT(refused([](RecordBatch& bad) {
                bad.nodes[2] = {1, 1, 0};
              }),
              HasSubstr("field \"r.values\": length 1, but there are 2 runs"));
  EXPECT_THAT(refused([&ends](RecordBatch& bad) {
                bad.nodes[1].null_count = 1;
                bad.buffers[0] = {ends, 1};
              }),
              HasSubstr("1 run ends are null"));
  EXPECT_THAT(refused([](RecordBatch& bad) { bad.nodes[0].null_count = 1; }), HasSubstr("no validity of its own"));
  batch.num_rows = batch.nodes[0].length = 0;
  batch.nodes[1].length = 0;
  check_structure(batch);
}

}  // namespace
}  // namespace crossdock::array
