#include "flight/protobuf.h"

#include <array>
#include <string>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::flight {
namespace {

constexpr int kMostVarintBytes = 10;

[[noreturn]] void fail_at(const char* where, const std::string& what) {
  throw ProtocolError(std::string(where) + " " + what);
}

/// The head of a field while it is read.
struct HeadReader {
  ByteSpan bytes;
  const char* where;
  std::size_t at = 0;

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int i = 0; i < kMostVarintBytes; ++i) {
      if (at == bytes.size()) fail_at(where, "is cut: a number of a field has no end");
      const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
      // Of the tenth byte one bit is left.
      if (i == kMostVarintBytes - 1 && byte > 1) break;
      value |= (byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) return value;
    }
    fail_at(where, "has a number of over 64 bits");
  }
};

}  // namespace

ProtoHead read_head(ByteSpan start, std::size_t left, const char* where) {
  HeadReader reader{start, where};
  const std::uint64_t key = reader.varint();
  const std::uint64_t number = key >> 3;
  if (number == 0 || number > (1u << 29) - 1) fail_at(where, "has a field of number " + std::to_string(number));
  ProtoHead head{.number = static_cast<std::uint32_t>(number), .type = static_cast<WireType>(key & 7)};
  std::uint64_t bytes = 0;
  switch (head.type) {
    case WireType::kVarint: head.integer = reader.varint(); break;
    case WireType::kFixed64: bytes = 8; break;
    case WireType::kFixed32: bytes = 4; break;
    case WireType::kBytes: bytes = reader.varint(); break;
    default: fail_at(where, "has field " + std::to_string(number) + " of wire type " + std::to_string(key & 7));
  }
  head.size = reader.at;
  if (bytes > left - head.size) {
    fail_at(where, "is cut: a field needs " + std::to_string(bytes) + " bytes, and " +
                       std::to_string(left - head.size) + " are left");
  }
  head.bytes = static_cast<std::size_t>(bytes);
  return head;
}

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty()) return std::nullopt;
  const ProtoHead head = read_head(rest_, rest_.size(), where_);
  ProtoField field{.number = head.number, .type = head.type};
  const ByteSpan value = rest_.subspan(head.size, head.bytes);
  switch (head.type) {
    case WireType::kVarint: field.integer = head.integer; break;
    case WireType::kFixed64: field.integer = load_le<std::uint64_t>(value.data()); break;
    case WireType::kFixed32: field.integer = load_le<std::uint32_t>(value.data()); break;
    case WireType::kBytes: field.bytes = value; break;
  }
  rest_ = rest_.subspan(head.size + head.bytes);
  return field;
}

void ProtoReader::expect(const ProtoField& field, WireType type) const {
  if (field.type == type) return;
  fail("has field " + std::to_string(field.number) + " of wire type " + std::to_string(static_cast<int>(field.type)) +
       " instead of " + std::to_string(static_cast<int>(type)));
}

ByteSpan ProtoReader::bytes(const ProtoField& field) const {
  expect(field, WireType::kBytes);
  return field.bytes;
}

std::string_view ProtoReader::text(const ProtoField& field) const {
  const std::string_view value = as_text(bytes(field));
  if (!is_utf8(value)) fail("has field " + std::to_string(field.number) + ", a text, that isn't UTF-8");
  return value;
}

std::uint64_t ProtoReader::integer(const ProtoField& field) const {
  expect(field, WireType::kVarint);
  return field.integer;
}

double ProtoReader::real(const ProtoField& field) const {
  expect(field, WireType::kFixed64);
  return std::bit_cast<double>(field.integer);
}

void ProtoReader::fail(const std::string& what) const { fail_at(where_, what); }

void ProtoWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
  out_.push_back(static_cast<std::byte>(value));
}

ProtoWriter& ProtoWriter::bytes(std::uint32_t number, ByteSpan value) {
  return value.empty() ? *this : element(number, value);
}

ProtoWriter& ProtoWriter::element(std::uint32_t number, ByteSpan value) {
  bytes_follow(number, value.size());
  raw(value);
  return *this;
}

ProtoWriter& ProtoWriter::integer(std::uint32_t number, std::uint64_t value) {
  if (value == 0) return *this;
  tag(number, WireType::kVarint);
  varint(value);
  return *this;
}

ProtoWriter& ProtoWriter::real(std::uint32_t number, double value) {
  if (value == 0) return *this;
  tag(number, WireType::kFixed64);
  std::array<std::byte, 8> bytes;
  store_le(bytes.data(), std::bit_cast<std::uint64_t>(value));
  raw(bytes);
  return *this;
}

ProtoWriter& ProtoWriter::bytes_follow(std::uint32_t number, std::uint64_t size) {
  tag(number, WireType::kBytes);
  varint(size);
  return *this;
}

}  // namespace crossdock::flight
