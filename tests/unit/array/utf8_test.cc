#include "array/internal/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace crossdock::array {
namespace {

bool valid(const std::string& text) {
  return is_utf8(reinterpret_cast<const std::byte*>(text.data()), static_cast<std::int64_t>(text.size()));
}

std::string encoded(std::uint32_t point) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xc0 | point >> 6), byte(0x80 | (point & 63))};
  if (point < 0x10000) return {byte(0xe0 | point >> 12), byte(0x80 | (point >> 6 & 63)), byte(0x80 | (point & 63))};
  return {byte(0xf0 | point >> 18), byte(0x80 | (point >> 12 & 63)), byte(0x80 | (point >> 6 & 63)),
          byte(0x80 | (point & 63))};
}

TEST(Utf8, EveryCharacterIsValidAndNoSurrogate) {
  for (std::uint32_t point = 0; point <= 0x110000; ++point) {
    const bool exists = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
    ASSERT_EQ(valid(encoded(point)), exists) << point;
  }
}

TEST(Utf8, OfAllThreeBytesAsManyAreValidAsThereAreSuchTexts) {
  // Characters of one, two and three bytes.
  constexpr std::int64_t kOne = 128;
  constexpr std::int64_t kTwo = 0x800 - 0x80;
  constexpr std::int64_t kThree = 0x10000 - 0x800 - 0x800;
  std::int64_t found = 0;
  std::byte bytes[3];
  for (int i = 0; i < 1 << 24; ++i) {
    for (int b = 0; b < 3; ++b) bytes[b] = static_cast<std::byte>(i >> (b * 8));
    found += is_utf8(bytes, 3) ? 1 : 0;
  }
  EXPECT_EQ(found, kOne * kOne * kOne + 2 * kOne * kTwo + kThree);
}

TEST(Utf8, FourBytesFromAllLeads) {
  int found = 0;
  for (int lead = 0xf0; lead <= 0xff; ++lead) {
    for (int second = 0; second <= 0xff; ++second) {
      for (const char third : {'\x7f', '\x80', '\xbf', '\xc0'}) {
        for (const char fourth : {'\x7f', '\x80', '\xbf', '\xc0'}) {
          found += valid({static_cast<char>(lead), static_cast<char>(second), third, fourth}) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(found, (0x30 + 3 * 0x40 + 0x10) * 2 * 2);
}

TEST(Utf8, CharactersThatAreCutOff) {
  for (const std::string character : {"\u00fc", "\u2603", "\U0001f600"}) {
    for (std::size_t n = 1; n < character.size(); ++n) {
      EXPECT_FALSE(valid(character.substr(0, n)));
      EXPECT_FALSE(valid(std::string(70, 'a') + character.substr(0, n)));
      EXPECT_FALSE(valid(character.substr(n)));
    }
  }
}

TEST(Utf8, OneBadByteIsFoundAnywhere) {
  for (std::size_t size = 0; size < 700; size += size < 80 ? 1 : 97) {
    std::string text(size, 'x');
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    EXPECT_TRUE(is_ascii(bytes, static_cast<std::int64_t>(size)));
    EXPECT_TRUE(valid(text));
    for (std::size_t i = 0; i < size; ++i) {
      text[i] = '\xff';
      EXPECT_FALSE(is_ascii(bytes, static_cast<std::int64_t>(size))) << size << " " << i;
      EXPECT_FALSE(valid(text)) << size << " " << i;
      text[i] = 'x';
    }
  }
}

TEST(Utf8, AsciiAroundCharactersAtEveryPlace) {
  for (std::size_t before = 0; before < 140; ++before) {
    const std::string text = std::string(before, 'x') + "\u2603" + std::string(140 - before, 'y') + "\U0001f600";
    EXPECT_TRUE(valid(text)) << before;
    std::string broken = text;
    broken[before + 2] = 'z';
    EXPECT_FALSE(valid(broken)) << before;
  }
}

}  // namespace
}  // namespace crossdock::array
