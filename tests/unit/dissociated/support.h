#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace crossdock::dissociated {

/// Bytes as they are written in the specification's figures.
inline std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

inline std::vector<std::byte> to_vector(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const ByteSpan span = as_bytes(text);
  return {span.begin(), span.end()};
}

/// The statement throws `Class`, and its text has every one of the words given.
#define EXPECT_ERROR(statement, Class, words) \
  EXPECT_THAT([&] { statement; }, ::testing::ThrowsMessage<Class>(::testing::HasSubstr(words)))

}  // namespace crossdock::dissociated
