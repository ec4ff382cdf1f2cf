// The checksum of frames: known values, and every method of this processor against one bit at a time.
#include "transport/net/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace crossdock::transport::net {
namespace {

std::uint32_t bit_by_bit(std::uint32_t before, ByteSpan bytes) {
  std::uint32_t remainder = ~before;
  for (const std::byte byte : bytes) {
    remainder ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~remainder;
}

class Crc32c : public ::testing::TestWithParam<Crc32cMethod> {
 protected:
  std::uint32_t run(ByteSpan bytes, std::uint32_t before = 0) const { return GetParam().run(before, bytes); }
};

TEST_P(Crc32c, GivesTheValuesOfRfc3720) {
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(run(bytes), 0x8A9136AAU);
  bytes.assign(32, std::byte{0xFF});
  EXPECT_EQ(run(bytes), 0x62A8AB43U);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(run(bytes), 0x46DD794EU);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(run(bytes), 0x113FDB5CU);
  // An iSCSI SCSI Read (10) command PDU.
  bytes.assign(48, std::byte{0});
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, int>>{
           {0, 0x01}, {1, 0xC0}, {16, 0x14}, {22, 0x04}, {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}}) {
    bytes[at] = static_cast<std::byte>(value);
  }
  EXPECT_EQ(run(bytes), 0xD9963A56U);
  const std::string digits = "123456789";
  EXPECT_EQ(run(std::as_bytes(std::span(digits))), 0xE3069283U);
  EXPECT_EQ(run({}), 0U);
}

TEST_P(Crc32c, AgreesWithOneBitAtATimeAtAnyLengthAndAlignment) {
  std::mt19937 random(20260731);
  std::vector<std::byte> bytes(40'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto check = [&](std::size_t at, std::size_t length) {
    const auto before = static_cast<std::uint32_t>(random());
    const ByteSpan part = ByteSpan(bytes).subspan(at, length);
    ASSERT_EQ(run(part, before), bit_by_bit(before, part)) << length << " bytes from " << at;
  };
  for (std::size_t length = 0; length < 1100; ++length) check(length % 67, length);
  for (int i = 0; i < 200; ++i) {
    const std::size_t at = random() % 200;
    check(at, random() % (bytes.size() - at));
  }
}

TEST_P(Crc32c, GoesOnFromPieceToPiece) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(30'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::uint32_t whole = run(bytes);
  for (int i = 0; i < 50; ++i) {
    std::uint32_t so_far = 0;
    for (ByteSpan left(bytes); !left.empty();) {
      const std::size_t piece = std::min<std::size_t>(left.size(), 1 + random() % 9'000);
      so_far = run(left.first(piece), so_far);
      left = left.subspan(piece);
    }
    ASSERT_EQ(so_far, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Crc32c, ::testing::ValuesIn(crc32c_methods().begin(), crc32c_methods().end()),
                         [](const auto& method) {
                           std::string name = method.param.name;
                           std::erase_if(name, [](char c) { return c == '.' || c == '-'; });
                           return name;
                         });

}  // namespace
}  // namespace crossdock::transport::net
