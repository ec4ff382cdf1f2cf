#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "array/convert.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"
#include "crossdock/core/error.h"
#include "made_array.h"
#include "support/batches.h"
#include "support/guarded.h"

/// Batches whose producer writes to their memory after they were checked, as it can in recycled regions and in files
/// that are served under trust.
namespace crossdock::array {
namespace {

using test::field;
using testing::Guarded;
using ::testing::HasSubstr;

constexpr std::int32_t kWild = 2 << 20;

/// Three texts. No byte behind a buffer may be read.
struct Texts {
  static constexpr std::string_view kBytes = "onetwothree";

  template <class Offset>
  static Texts of(TypeId type) {
    constexpr Offset kOffsets[] = {0, 3, 6, 11};
    Texts made{Guarded::of(std::span<const Offset>(kOffsets)),
               Guarded::of(std::span<const char>(kBytes.data(), kBytes.size())),
               {}};
    made.batch.schema = std::make_shared<Schema>(std::vector{field("text", type)});
    made.batch.num_rows = 3;
    made.batch.nodes = {{3, 0, 0}};
    made.batch.buffers = {{}, {made.offsets.data(), made.offsets.size()}, {made.bytes.data(), made.bytes.size()}};
    return made;
  }

  Guarded offsets;
  Guarded bytes;
  RecordBatch batch;
};

RecordBatch through_c(const RecordBatch& batch) {
  ArrowDeviceArray array;
  export_batch(batch, &array);
  try {
    return import_batch(batch.schema, &array);
  } catch (...) {
    test::release(&array);
    throw;
  }
}

TEST(ChangingMemory, SizesGoThroughTheCStructuresAsTheyWere) {
  std::vector<Field> fields = test::every_type();
  ArrowDeviceArray made = test::on_host(test::make_struct(fields, 37, 3, true));
  const RecordBatch batch = import_batch(std::make_shared<Schema>(fields), &made);
  const RecordBatch back = through_c(batch);
  ASSERT_EQ(back.buffers.size(), batch.buffers.size());
  for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
    EXPECT_EQ(back.buffers[i].size, batch.buffers[i].size) << i;
    if (batch.buffers[i].size == 0) continue;
    EXPECT_EQ(back.buffers[i].data, batch.buffers[i].data) << i;
  }
}

TEST(ChangingMemory, ALastOffsetThatChangesBetweenExportAndImportIsRefused) {
  const Texts small = Texts::of<std::int32_t>(TypeId::kUtf8);
  ArrowDeviceArray array;
  export_batch(small.batch, &array);
  small.offsets.put<std::int32_t>(3, kWild);
  try {
    import_batch(small.batch.schema, &array);
    ADD_FAILURE() << "the offset was believed";
  } catch (const InvalidDataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its data buffer has 11 bytes, but its length needs 2097152"));
  }
  test::release(&array);

  const Texts large = Texts::of<std::int64_t>(TypeId::kLargeBinary);
  export_batch(large.batch, &array);
  large.offsets.put<std::int64_t>(3, kWild);
  EXPECT_THROW(import_batch(large.batch.schema, &array), InvalidDataError);
  test::release(&array);
}

TEST(ChangingMemory, ALastOffsetThatChangesAfterTheImportIsRefusedBeforeItIsUsed) {
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  const RecordBatch batch = through_c(texts.batch);
  texts.offsets.put<std::int32_t>(3, kWild);
  std::int64_t copied = 0;
  EXPECT_THROW(normalized(batch, &copied, Offsets::kFromZero), InvalidDataError);
  EXPECT_THROW(check_full(batch), InvalidDataError);
}

TEST(ChangingMemory, AChildThatWasMovedOutKeepsItsSizes) {
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  ArrowDeviceArray whole;
  export_batch(texts.batch, &whole);
  ArrowDeviceArray child = test::on_host(*whole.array.children[0]);
  whole.array.children[0]->release = nullptr;
  test::release(&whole);
  texts.offsets.put<std::int32_t>(3, kWild);
  EXPECT_THROW(import_batch(texts.batch.schema, &child), InvalidDataError);
  test::release(&child);
}

TEST(ChangingMemory, ABufferThatAConsumerPutInAnothersPlaceHasTheSizeThatItsLengthImplies) {
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  const Texts other = Texts::of<std::int32_t>(TypeId::kUtf8);
  ArrowDeviceArray array;
  export_batch(texts.batch, &array);
  array.array.children[0]->buffers[2] = other.bytes.data();
  other.offsets.put<std::int32_t>(3, 7);
  array.array.children[0]->buffers[1] = other.offsets.data();
  const RecordBatch batch = import_batch(texts.batch.schema, &array);
  EXPECT_EQ(batch.buffers[2].data, other.bytes.data());
  EXPECT_EQ(batch.buffers[2].size, 7);
}

TEST(ChangingMemory, AStreamOfOursKeepsSizesAndTheClassOfItsFailure) {
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  int asked = 0;
  ArrowArrayStream exported;
  export_stream(std::make_unique<testing::FunctionStream>(texts.batch.schema,
                                                          [&]() -> std::optional<RecordBatch> {
                                                            if (++asked == 2) throw TruncatedStreamError("cut short");
                                                            return texts.batch;
                                                          }),
                &exported);
  const auto stream = import_stream(&exported);
  const RecordBatch batch = stream->next().value();
  EXPECT_EQ(batch.buffers[2].size, texts.bytes.size());
  EXPECT_THROW(stream->next(), TruncatedStreamError);
  EXPECT_THROW(stream->next(), TruncatedStreamError);
  EXPECT_EQ(asked, 2);
}

/// Another thread sets the first text's end and the last offset to and fro for as long as `check` runs, often.
template <class Check>
void while_it_changes(const Texts& texts, const Check& check) {
  std::atomic<bool> over{false};
  std::thread producer([&] {
    while (!over.load(std::memory_order_relaxed)) {
      texts.offsets.put<std::int32_t>(3, kWild);
      texts.offsets.put<std::int32_t>(1, -kWild);
      texts.offsets.put<std::int32_t>(3, 11);
      texts.offsets.put<std::int32_t>(1, 6);
      texts.offsets.put<std::int32_t>(1, 3);
    }
  });
  constexpr int kRounds = 20'000;
  for (int i = 0; i < kRounds; ++i) {
    try {
      check();
    } catch (const InvalidDataError&) {
    }
  }
  over.store(true);
  producer.join();
}

TEST(ChangingMemory, NothingOutOfBoundsIsReadWhileOffsetsChange) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a race is what is tested: another process may change shared memory at any time";
#endif
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  while_it_changes(texts, [&] { check_full(texts.batch); });
  while_it_changes(texts, [&] {
    std::int64_t copied = 0;
    RecordBatch part = texts.batch;
    part.nodes[0] = {2, 0, 1};
    part.num_rows = 2;
    const RecordBatch whole = normalized(part, &copied, Offsets::kFromZero);
    EXPECT_LE(whole.buffers[2].size, texts.bytes.size());
  });
  while_it_changes(texts, [&] {
    const RecordBatch back = through_c(texts.batch);
    EXPECT_EQ(back.buffers[2].size, texts.bytes.size());
  });
}

TEST(ChangingMemory, ConvertedColumnsAreRightWhileOffsetsChange) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a race is what is tested: another process may change shared memory at any time";
#endif
  const Texts texts = Texts::of<std::int32_t>(TypeId::kUtf8);
  const Field words = test::dictionary_of("text", TypeId::kInt8, field("", TypeId::kUtf8));
  constexpr std::int8_t kIndices[1000] = {};  // a long column of the first text
  RecordBatch encoded = texts.batch;
  encoded.schema = std::make_shared<Schema>(std::vector{words});
  encoded.buffers = {{}, {kIndices, 1000}};
  encoded.nodes = {{1000, 0, 0}};
  encoded.num_rows = 1000;
  encoded.dictionaries = {std::make_shared<RecordBatch>(texts.batch)};
  const Field wide = field("text", TypeId::kLargeUtf8);
  for (const auto& [from, to] :
       {std::pair(&texts.batch, wide), std::pair(&texts.batch, words),
        std::pair(&texts.batch, field("text", TypeId::kUtf8View)), std::pair(&std::as_const(encoded), wide)}) {
    const Conversion conversion(*from->schema, std::make_shared<Schema>(std::vector{to}));
    const RecordBatch& batch = *from;
    while_it_changes(texts, [&] {
      std::int64_t copied = 0;
      const RecordBatch out = conversion.apply(batch, &copied);
      EXPECT_NO_THROW(check_full(out)) << "offsets, views and dictionaries are copies";
    });
  }
}

}  // namespace
}  // namespace crossdock::array
