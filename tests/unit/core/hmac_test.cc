#include "core/hmac.h"

#include <gtest/gtest.h>

#include <string>

namespace crossdock {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Digest of(std::string_view key, std::string_view a, std::string_view b = {}) {
  const std::array<ByteSpan, 2> parts = {as_bytes(a), as_bytes(b)};
  return hmac_sha256(key, parts);
}

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacSha256, IsThatOfTheStandard) {
  EXPECT_EQ(hex(of(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(of("Jefe", "what do ya want ", "for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, IsComparedWhole) {
  const Digest digest = of("key", "text");
  EXPECT_TRUE(same(digest, of("key", "text")));
  for (std::size_t at = 0; at < digest.size(); ++at) {
    Digest other = digest;
    other[at] ^= std::byte{1};
    EXPECT_FALSE(same(digest, other)) << at;
  }
}

TEST(Random, IsDifferentEachTime) {
  Digest a{};
  Digest b{};
  fill_random(a);
  fill_random(b);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace crossdock
