// Requests with parameters.

#include "dissociated/request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::dissociated {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// A request whose parameters are these numbers, each of 4 bytes.
std::vector<std::byte> request_of(const std::vector<std::uint32_t>& numbers, const std::string& ticket = "t") {
  std::vector<std::byte> bytes = bytes_of(std::string("\0XDREQ\0\1", 8));
  for (const std::uint32_t number : numbers) {
    bytes.resize(bytes.size() + 4);
    store_le(bytes.data() + bytes.size() - 4, number);
  }
  const ByteSpan end = as_bytes(ticket);
  bytes.insert(bytes.end(), end.begin(), end.end());
  return bytes;
}

TEST(RequestTest, ATicketAloneStaysAsItIs) {
  for (const std::string& ticket : {std::string(), std::string("a table"), std::string("\0XDREQ", 6)}) {
    const std::vector<std::byte> bytes = encode_request({.ticket = ticket});
    EXPECT_EQ(bytes, bytes_of(ticket));
    const Request read = parse_request(bytes);
    EXPECT_EQ(read.ticket, ticket);
    EXPECT_FALSE(read.has_parameters());
  }
}

TEST(RequestTest, WhatIsWrittenIsRead) {
  const std::vector<BatchRange> ranges{{0, 1}, {1, 2}, {7, 4294967289u}};
  const std::vector<std::byte> batches = encode_request({.ticket = "table", .batches = ranges});
  EXPECT_EQ(batches, request_of({1, 24, 0, 1, 1, 2, 7, 4294967289u, 0, 0}, "table"));
  EXPECT_EQ(parse_request(batches).ticket, "table");
  EXPECT_EQ(parse_request(batches).batches, ranges);
  EXPECT_FALSE(parse_request(batches).batch_statistics);

  const std::vector<std::string> columns{"x", "", "ä"};
  const std::vector<std::byte> statistics = encode_request({.ticket = "table", .batch_statistics = columns});
  EXPECT_EQ(parse_request(statistics).ticket, "table");
  EXPECT_EQ(parse_request(statistics).batch_statistics, columns);
  EXPECT_FALSE(parse_request(statistics).batches);

  // No batches, and no columns, are parameters too.
  EXPECT_TRUE(parse_request(encode_request({.ticket = "t", .batches = {{}}})).batches);
  EXPECT_TRUE(parse_request(encode_request({.ticket = "t", .batch_statistics = {{}}})).batch_statistics);
}

TEST(RequestTest, WrongRequestsAreRefused) {
  const std::vector<std::pair<std::string, std::vector<std::byte>>> wrong{
      {"ends early", request_of({1, 8, 0}, "")},
      {"a parameter that is longer than the request", request_of({1, 4294967288u, 0, 1, 0, 0})},
      {"no end", request_of({1, 8, 0, 1}, "")},
      {"an end with bytes", request_of({1, 8, 0, 1, 0, 4, 0})},
      {"no parameters", request_of({0, 0})},
      {"no ticket", request_of({1, 8, 0, 1, 0, 0}, "")},
      {"a range without batches", request_of({1, 8, 0, 0, 0, 0})},
      {"overlapping ranges", request_of({1, 16, 0, 3, 2, 1, 0, 0})},
      {"ranges that go down", request_of({1, 16, 5, 1, 2, 1, 0, 0})},
      {"a range over the end", request_of({1, 8, 4294967295u, 2, 0, 0})},
      {"half a range", request_of({1, 4, 0, 0, 0})},
      {"batches twice", request_of({1, 8, 0, 1, 1, 8, 3, 1, 0, 0})},
      {"statistics twice", request_of({2, 0, 2, 0, 0, 0})},
      {"batches and statistics", request_of({1, 8, 0, 1, 2, 0, 0, 0})},
      {"a name that ends behind its parameter", request_of({2, 4, 5, 0, 0})},
      {"a name that isn't UTF-8", request_of({2, 8, 4, 0xFFFFFFFFu, 0, 0})},
  };
  for (const auto& [what, bytes] : wrong) EXPECT_THROW(parse_request(bytes), ProtocolError) << what;
  EXPECT_THROW(parse_request(request_of({77, 0, 0, 0})), UnsupportedError);
}

TEST(RequestTest, TooMuchIsRefusedAtBothEnds) {
  std::vector<BatchRange> ranges;
  std::vector<std::uint32_t> numbers{1, 8 * 4097};
  for (std::uint32_t i = 0; i < 4097; ++i) {
    ranges.push_back({2 * i, 1});
    numbers.insert(numbers.end(), {2 * i, 1});
  }
  numbers.insert(numbers.end(), {0, 0});
  EXPECT_THROW(encode_request({.ticket = "t", .batches = ranges}), InvalidArgumentError);
  EXPECT_THROW(parse_request(request_of(numbers)), ProtocolError);
  ranges.pop_back();
  EXPECT_EQ(parse_request(encode_request({.ticket = "t", .batches = ranges})).batches, ranges);

  const std::vector<std::string> many(1025, "x");
  EXPECT_THROW(encode_request({.ticket = "t", .batch_statistics = many}), InvalidArgumentError);
  const std::vector<std::string> long_names(2, std::string(40000, 'x'));
  EXPECT_THROW(encode_request({.ticket = "t", .batch_statistics = long_names}), InvalidArgumentError);
  std::vector<std::uint32_t> empty_names{2, 4 * 1025};
  empty_names.resize(2 + 1025 + 2);
  EXPECT_THROW(parse_request(request_of(empty_names)), ProtocolError);
}

TEST(RequestTest, OnlyTheWholeBeginningCounts) {
  EXPECT_TRUE(begins_as_request(request_of({})));
  EXPECT_FALSE(begins_as_request(bytes_of("XDREQ")));
  EXPECT_FALSE(begins_as_request({}));
}

}  // namespace
}  // namespace crossdock::dissociated
