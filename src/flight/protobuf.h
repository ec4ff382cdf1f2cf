#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/bytes.h"

/// The wire format of protocol buffers, as far as Flight's messages use it (protobuf.dev, "Encoding"). Written by hand:
/// the messages are few and stable, and every field is checked where it is read.
namespace crossdock::flight {

/// How a field's value is laid out.
enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message. Views the message's bytes.
struct ProtoField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t integer = 0;  ///< Of kVarint, kFixed64 and kFixed32.
  ByteSpan bytes{};           ///< Of kBytes.
};

/// The beginning of a field: what is before its value's bytes.
struct ProtoHead {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::size_t size = 0;       ///< Of the head itself.
  std::size_t bytes = 0;      ///< That follow it: of kBytes its value, of the fixed types 4 or 8, of kVarint none.
  std::uint64_t integer = 0;  ///< Of kVarint.
};
/// Reads a head from the first bytes of what is left of a message, of which there are `left` in all. Throws
/// ProtocolError as ProtoReader::next() does. `start` needs at most 20 bytes.
ProtoHead read_head(ByteSpan start, std::size_t left, const char* where);

/// Reads the fields of a message one after the other, in the order in which they are. A plain value.
class ProtoReader {
 public:
  /// `where` begins the text of errors, as in "a Ticket". It must outlive the reader.
  ProtoReader(ByteSpan message, const char* where) noexcept : rest_(message), where_(where) {}
  /// Returns the next field; nothing at the end. Throws ProtocolError for bytes that are no protobuf message: cut
  /// fields, field number 0, groups (which Flight has none of).
  std::optional<ProtoField> next();

  // The value of a field of the expected type. Throw ProtocolError, which names the field, for another one.
  ByteSpan bytes(const ProtoField& field) const;
  /// Text: also throws if it isn't UTF-8.
  std::string_view text(const ProtoField& field) const;
  std::uint64_t integer(const ProtoField& field) const;
  double real(const ProtoField& field) const;

 private:
  void expect(const ProtoField& field, WireType type) const;
  [[noreturn]] void fail(const std::string& what) const;

  ByteSpan rest_;
  const char* where_;
};

/// Writes the fields of a message. Values that are protobuf's default (0, empty) are left out, except by element() and
/// nested(), which may be there several times.
class ProtoWriter {
 public:
  ProtoWriter& bytes(std::uint32_t number, ByteSpan value);
  ProtoWriter& text(std::uint32_t number, std::string_view value) { return bytes(number, as_bytes(value)); }
  ProtoWriter& integer(std::uint32_t number, std::uint64_t value);
  ProtoWriter& real(std::uint32_t number, double value);
  ProtoWriter& element(std::uint32_t number, ByteSpan value);
  /// Writes a message within this one.
  ProtoWriter& nested(std::uint32_t number, const ProtoWriter& message) { return element(number, message.view()); }
  /// Writes a field's number and length alone: its bytes follow elsewhere.
  ProtoWriter& bytes_follow(std::uint32_t number, std::uint64_t size);

  std::size_t size() const noexcept { return out_.size(); }
  ByteSpan view() const noexcept { return out_; }
  std::vector<std::byte> take() noexcept { return std::move(out_); }

 private:
  void tag(std::uint32_t number, WireType type) {
    varint((std::uint64_t{number} << 3) | static_cast<std::uint64_t>(type));
  }
  void varint(std::uint64_t value);
  void raw(ByteSpan bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> out_;
};

}  // namespace crossdock::flight
