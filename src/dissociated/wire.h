#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"

/// The byte formats of the Dissociated IPC protocol. Section names in these comments are those of the specification.
namespace crossdock::dissociated {

/// Byte 0 of an untagged message ("Metadata Stream Sequence"). kError is an extension of this project: see
/// docs/reference/protocol.md.
enum class MessageType : std::uint8_t { kEndOfStream = 0, kMetadata = 1, kError = 255 };

/// Bits 56 to 63 of a body's tag ("Data Stream Sequence").
enum class BodyType : std::uint8_t { kPacked = 0, kRemote = 1 };

inline constexpr std::size_t kPrefixSize = 5;
/// Longest reason of an error message, in UTF-8 bytes. The sender cuts a longer one; the receiver rejects it.
inline constexpr std::size_t kMaxErrorReason = 4096;
using PrefixBytes = std::array<std::byte, kPrefixSize>;

struct Prefix {
  MessageType type;
  std::uint32_t sequence;
};

PrefixBytes write_prefix(MessageType type, std::uint32_t sequence) noexcept;
/// Throws ProtocolError for fewer than 5 bytes, an unknown type, an End of Stream that isn't exactly 5 bytes, and an
/// error whose reason is longer than kMaxErrorReason or isn't UTF-8.
Prefix read_prefix(ByteSpan message);

struct Tag {
  std::uint32_t sequence;
  BodyType type;
};

constexpr std::uint64_t write_tag(std::uint32_t sequence, BodyType type) noexcept {
  return sequence | (static_cast<std::uint64_t>(type) << 56);
}
/// Throws ProtocolError for reserved bits (32 to 55) that are set, and for an unknown body type.
Tag read_tag(std::uint64_t tag);

/// One pair of a type 1 body. An absent or empty buffer is {0, 0}; it carries no lease.
struct RemoteBuffer {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  bool operator==(const RemoteBuffer&) const = default;
};

/// The first 16 bytes of a type 1 body, which stand before its pairs and look like one: total and count.
constexpr RemoteBuffer remote_body_head(std::uint64_t total, std::size_t count) noexcept { return {total, count}; }
/// Replaces `*out` by a type 1 body: total (the sum of the raw lengths), count, pairs.
void write_remote_body(std::span<const RemoteBuffer> buffers, std::vector<std::byte>* out);
/// Replaces `*out`, which is unspecified after a throw. Throws ProtocolError for a size that doesn't fit the count, a
/// total that isn't the sum, a sum that overflows, and an address without a length.
void read_remote_body(ByteSpan body, std::vector<RemoteBuffer>* out);
/// The first half of read_remote_body(): copies the pairs out, checks the size only, and returns the total. For a
/// caller that knows the lengths and the total from elsewhere and compares them.
std::uint64_t copy_remote_body(ByteSpan body, std::vector<RemoteBuffer>* out);
/// The second half: checks the pairs and their total.
void check_remote_body(std::span<const RemoteBuffer> buffers, std::uint64_t total);

}  // namespace crossdock::dissociated
