// Batches whose bytes were changed at random: whatever the checks let through can be read to the last value. Buffers
// are of exactly their size, so that a sanitizer sees every byte too far, and the reader is that of made_array.h, which
// follows the format and checks every length on its way.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "made_array.h"

namespace crossdock::array {
namespace {

using test::ArrayTest;

class Hostile : public ArrayTest {};

/// A copy of a batch, dictionaries included, whose bytes may be changed.
class Changeable {
 public:
  explicit Changeable(const RecordBatch& from) : batch_(copy(from)) {}

  /// Changes a few bytes somewhere.
  void change(std::mt19937_64& random) {
    constexpr std::uint8_t kOdd[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff};
    if (memory_.empty()) return;  // The null type has no bytes.
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const auto& [bytes, size] = memory_[random() % memory_.size()];
      if (size == 0) continue;
      const bool odd = random() % 2 == 0;
      bytes[random() % size] = static_cast<std::byte>(odd ? kOdd[random() % std::size(kOdd)] : random());
    }
  }
  const RecordBatch& batch() const { return batch_; }

 private:
  RecordBatch copy(const RecordBatch& from) {
    RecordBatch out = from;
    out.owner = nullptr;
    for (BufferView& buffer : out.buffers) {
      if (buffer.data == nullptr) continue;
      const auto size = static_cast<std::size_t>(buffer.size);
      auto bytes = std::make_unique<std::byte[]>(size);
      std::memcpy(bytes.get(), buffer.data, size);
      buffer.data = bytes.get();
      memory_.emplace_back(std::move(bytes), size);
    }
    for (auto& dictionary : out.dictionaries) dictionary = std::make_shared<RecordBatch>(copy(*dictionary));
    return out;
  }

  std::vector<std::pair<std::unique_ptr<std::byte[]>, std::size_t>> memory_;
  RecordBatch batch_;
};

std::string all_of(const RecordBatch& batch) {
  ArrowDeviceArray exported;
  export_batch(batch, &exported);
  std::string text = test::rows_text(batch.schema->fields(), exported.array, 0, batch.num_rows);
  test::release(&exported);
  return text;
}

TEST_F(Hostile, WhatFullValidationPassesCanBeReadToTheLastValue) {
  constexpr std::uint64_t kSeeds = 60;
  std::int64_t passed = 0;
  std::int64_t refused = 0;
  for (const Field& of : test::every_type()) {
    const auto schema = std::make_shared<Schema>(std::vector<Field>{of});
    ArrowDeviceArray array = test::on_host(test::make_struct({of}, 24, 3, true));
    array.array.offset = 2;
    array.array.length = 20;
    const RecordBatch made = import_batch(schema, &array);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(of.name + ", seed " + std::to_string(seed));
      Changeable changed(made);
      std::mt19937_64 random(seed);
      changed.change(random);
      std::string text;
      try {
        check_full(changed.batch());
        text = all_of(changed.batch());
        ++passed;
      } catch (const InvalidDataError&) {
        ++refused;
      }
      // Slicing and cutting must not be misled either, by what the structure's check alone lets through.
      for (const Offsets offsets : {Offsets::kKeep, Offsets::kFromZero}) {
        try {
          std::int64_t copied = 0;
          const RecordBatch normal = normalized(changed.batch(), &copied, offsets);
          check_full(normal);
          const std::string normal_text = all_of(normal);
          if (!text.empty()) {
            EXPECT_EQ(normal_text, text);
          }
        } catch (const InvalidDataError&) {
          EXPECT_TRUE(text.empty()) << "valid data that can't be normalized";
        }
      }
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(passed, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace crossdock::array
