// The lowest and the highest element of a column.

#include "array/bounds.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace crossdock::array {
namespace {

Field unnamed_field(TypeId id) {
  Field field;
  field.type.id = id;
  return field;
}

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The bounds of numbers, of which those with a bit in `nulls` are null.
template <typename T>
std::optional<Bounds> bounds_of(TypeId id, const std::vector<T>& values, std::vector<bool> nulls = {}) {
  const auto finder = BoundsFinder::make(unnamed_field(id));
  std::vector<std::byte> validity((values.size() + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (nulls.empty() || !nulls[i]) validity[i / 8] |= std::byte{1} << (i % 8);
  }
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<std::byte> unaligned(bytes.size() + 1);
  if (!bytes.empty()) std::memcpy(unaligned.data() + 1, bytes.data(), bytes.size());
  finder->add(unaligned.data() + 1, nulls.empty() ? nullptr : validity.data(), std::ssize(values));
  return finder->finish();
}

std::optional<Bounds> bounds_of_texts(const std::vector<std::string>& texts, TypeId id = TypeId::kUtf8) {
  const auto finder = BoundsFinder::make(unnamed_field(id));
  for (const std::string& text : texts) finder->add(text);
  return finder->finish();
}

template <typename T>
Bounds pair_of(T min, T max) {
  return {bytes_of(min), bytes_of(max)};
}

TEST(BoundsTest, OfNumbers) {
  EXPECT_EQ(bounds_of<std::int8_t>(TypeId::kInt8, {3, -128, 127}), pair_of<std::int8_t>(-128, 127));
  EXPECT_EQ(bounds_of<std::uint64_t>(TypeId::kUInt64, {1, ~std::uint64_t{0}}),
            pair_of<std::uint64_t>(1, ~std::uint64_t{0}));
  EXPECT_EQ(bounds_of<std::int64_t>(TypeId::kTimestamp, {INT64_MAX}), pair_of<std::int64_t>(INT64_MAX, INT64_MAX));
  EXPECT_EQ(bounds_of<std::int32_t>(TypeId::kDate32, {}), std::nullopt);
  EXPECT_EQ(bounds_of<std::int32_t>(TypeId::kInt32, {9, 5, 7}, {true, false, false}), pair_of<std::int32_t>(5, 7));
  EXPECT_EQ(bounds_of<std::int32_t>(TypeId::kInt32, {9, 5}, {true, true}), std::nullopt);
}

TEST(BoundsTest, OfManyNumbersAndNulls) {
  std::mt19937 random(1);
  for (const std::size_t size : {1u, 63u, 64u, 65u, 200u, 1000u}) {
    std::vector<std::int16_t> values(size);
    std::vector<bool> nulls(size);
    std::int16_t min = INT16_MAX;
    std::int16_t max = INT16_MIN;
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = static_cast<std::int16_t>(random());
      nulls[i] = i != 0 && i / 64 % 2 == 0 && random() % 3 == 0;
      if (!nulls[i]) min = std::min(min, values[i]), max = std::max(max, values[i]);
    }
    EXPECT_EQ(bounds_of(TypeId::kInt16, values, nulls), pair_of(min, max)) << size;
  }
}

TEST(BoundsTest, OfFloats) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(bounds_of<double>(TypeId::kFloat64, {1.5, -2.5, kInfinity, -kInfinity}), pair_of(-kInfinity, kInfinity));
  EXPECT_EQ(bounds_of<float>(TypeId::kFloat32, {1e-40F, -1e-40F}), pair_of(-1e-40F, 1e-40F));
  // Both zeros are equal, and each may be asked for.
  EXPECT_EQ(bounds_of<double>(TypeId::kFloat64, {0.0}), pair_of(-0.0, 0.0));
  EXPECT_EQ(bounds_of<double>(TypeId::kFloat64, {-0.0}), pair_of(-0.0, 0.0));
  // A NaN isn't between any bounds.
  for (const double nan : {kNan, -kNan}) {
    EXPECT_EQ(bounds_of<double>(TypeId::kFloat64, {1.0, nan, 2.0}), std::nullopt);
    EXPECT_EQ(bounds_of<double>(TypeId::kFloat64, {1.0, nan, 2.0}, {false, true, false}), pair_of(1.0, 2.0));
  }
  EXPECT_EQ(bounds_of<float>(TypeId::kFloat32, {std::nanf("7")}), std::nullopt);
}

TEST(BoundsTest, OfBools) {
  const auto of = [](std::byte bits, std::byte valid, std::int64_t n) {
    const auto finder = BoundsFinder::make(unnamed_field(TypeId::kBool));
    finder->add(&bits, &valid, n);
    return finder->finish();
  };
  EXPECT_EQ(of(std::byte{0b110}, std::byte{0b111}, 3), (Bounds{std::string(1, '\0'), std::string(1, '\1')}));
  EXPECT_EQ(of(std::byte{0b110}, std::byte{0b110}, 3), (Bounds{std::string(1, '\1'), std::string(1, '\1')}));
  EXPECT_EQ(of(std::byte{0b1000}, std::byte{0b1111}, 3), (Bounds{std::string(1, '\0'), std::string(1, '\0')}));
  EXPECT_EQ(of(std::byte{0b110}, std::byte{0}, 3), std::nullopt);
}

TEST(BoundsTest, OfDecimals) {
  using Wide = std::array<std::uint64_t, 2>;
  const std::uint64_t minus = ~std::uint64_t{0};
  const std::vector<Wide> values{{5, 0}, {minus, minus}, {minus - 1, minus}, {0, 1}, {minus, 0}};
  EXPECT_EQ(bounds_of(TypeId::kDecimal128, values), (Bounds{bytes_of(values[2]), bytes_of(values[3])}));
  using Widest = std::array<std::uint64_t, 4>;
  const std::vector<Widest> widest{{0, 1, 0, 0}, {9, 0, 0, 0}, {0, 0, 0, minus}};
  EXPECT_EQ(bounds_of(TypeId::kDecimal256, widest), (Bounds{bytes_of(widest[2]), bytes_of(widest[0])}));
  EXPECT_EQ(bounds_of(TypeId::kDecimal256, widest, {true, true, true}), std::nullopt);
}

TEST(BoundsTest, OfTexts) {
  EXPECT_EQ(bounds_of_texts({"b", "", "abc"}), (Bounds{"", "b"}));
  EXPECT_EQ(bounds_of_texts({"z", "\xC3\xA4"}), (Bounds{"z", "\xC3\xA4"}));  // in the order of bytes
  EXPECT_EQ(bounds_of_texts({}), std::nullopt);
  const std::string thirty_two(32, 'x');
  EXPECT_EQ(bounds_of_texts({thirty_two}), (Bounds{thirty_two, thirty_two}));
}

TEST(BoundsTest, LongTextsAreCut) {
  const std::string many(100, 'm');
  const std::string cut(32, 'm');
  EXPECT_EQ(bounds_of_texts({many}), (Bounds{cut, std::string(31, 'm') + 'n'}));
  // The last character that has a next one becomes that; those behind it go.
  const std::string last = "\xF4\x8F\xBF\xBF";  // U+10FFFF
  std::string ends = "a";
  for (int i = 0; i < 20; ++i) ends += last;
  EXPECT_EQ(upper_bound_of(ends, true), "b");
  std::string all;
  for (int i = 0; i < 20; ++i) all += last;
  EXPECT_EQ(upper_bound_of(all, true), std::nullopt);
  EXPECT_EQ(upper_bound_of(std::string(100, '\xFF'), false), std::nullopt);
  EXPECT_EQ(upper_bound_of("a" + std::string(100, '\xFF'), false), "b");
  // Characters aren't cut, and no surrogate comes out.
  EXPECT_EQ(lower_bound_of(std::string(31, 'm') + "\xC3\xA4tail", true), std::string(31, 'm'));
  EXPECT_EQ(upper_bound_of(std::string(28, 'm') + "\xED\x9F\xBF" + std::string(40, 'z'), true),
            std::string(28, 'm') + "\xED\x9F\xBF{");
  EXPECT_EQ(upper_bound_of(std::string(29, 'm') + "\xED\x9F\xBF" + std::string(40, 'z'), true),
            std::string(29, 'm') + "\xEE\x80\x80");
  // A character that becomes longer needn't fit.
  EXPECT_EQ(upper_bound_of(std::string(31, 'm') + '\x7F' + "tail", true), std::string(30, 'm') + 'n');
}

TEST(BoundsTest, BoundsOfTextsBoundThem) {
  std::mt19937 random(2);
  const std::vector<std::string> characters{
      "a", "z", "\x7F", "\xC3\xA4", "\xED\x9F\xBF", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts(1 + random() % 4);
    for (std::string& text : texts) {
      const std::size_t length = random() % 80;
      while (text.size() < length) text += characters[random() % (round % 7 + 1)];
    }
    const auto bounds = bounds_of_texts(texts);
    if (!bounds) continue;
    EXPECT_LE(bounds->min.size(), kMostBoundText);
    EXPECT_LE(bounds->max.size(), kMostBoundText);
    for (const std::string& text : texts) {
      EXPECT_LE(bounds->min, text);
      EXPECT_GE(bounds->max, text);
    }
  }
}

TEST(BoundsTest, TextsThatArentUtf8HaveNone) {
  EXPECT_EQ(bounds_of_texts({"\xC0\x80"}), std::nullopt);
  EXPECT_EQ(bounds_of_texts({std::string(100, '\x80')}), std::nullopt);
  EXPECT_TRUE(bounds_of_texts({std::string(100, '\x80')}, TypeId::kBinary));
}

TEST(BoundsTest, ExistForSomeTypes) {
  for (const TypeId id : {TypeId::kStruct, TypeId::kList, TypeId::kFloat16, TypeId::kNull, TypeId::kMap,
                          TypeId::kFixedSizeBinary, TypeId::kIntervalMonths}) {
    EXPECT_FALSE(BoundsFinder::exist_for(unnamed_field(id)));
  }
  Field dictionary = unnamed_field(TypeId::kInt32);
  dictionary.dictionary = std::make_shared<const Field>(unnamed_field(TypeId::kUtf8));
  EXPECT_FALSE(BoundsFinder::exist_for(dictionary));
  for (int id = 0; id < kTypeCount; ++id) {  // each that has some has a finder
    const Field field = unnamed_field(static_cast<TypeId>(id));
    if (!BoundsFinder::exist_for(field)) continue;
    EXPECT_EQ(BoundsFinder::make(field)->finish(), std::nullopt);
  }
}

}  // namespace
}  // namespace crossdock::array
