#include "dissociated/wire.h"

#include <cstring>
#include <string>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::dissociated {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kPair = 2 * kWord;
static_assert(sizeof(RemoteBuffer) == kPair, "pairs are copied as they are");

}  // namespace

PrefixBytes write_prefix(MessageType type, std::uint32_t sequence) noexcept {
  PrefixBytes bytes;
  bytes[0] = static_cast<std::byte>(type);
  store_le(bytes.data() + 1, sequence);
  return bytes;
}

Prefix read_prefix(ByteSpan message) {
  if (message.size() < kPrefixSize) {
    throw ProtocolError("an untagged message has " + std::to_string(message.size()) +
                        " bytes; its prefix alone (type, sequence number) has 5");
  }
  const auto type = std::to_integer<unsigned>(message[0]);
  const auto sequence = load_le<std::uint32_t>(message.data() + 1);
  const auto number = [&] { return " (number " + std::to_string(sequence) + ")"; };
  switch (type) {
    case static_cast<unsigned>(MessageType::kEndOfStream):
      if (message.size() != kPrefixSize) {
        throw ProtocolError("an End of Stream message" + number() + " has " + std::to_string(message.size()) +
                            " bytes; it must have exactly 5");
      }
      return {MessageType::kEndOfStream, sequence};
    case static_cast<unsigned>(MessageType::kMetadata): return {MessageType::kMetadata, sequence};
    case static_cast<unsigned>(MessageType::kError): {
      const ByteSpan reason = message.subspan(kPrefixSize);
      if (reason.size() > kMaxErrorReason) {
        throw ProtocolError("an error message" + number() + " has a reason of " + std::to_string(reason.size()) +
                            " bytes; at most " + std::to_string(kMaxErrorReason) + " are allowed");
      }
      if (!is_utf8(as_text(reason))) {
        throw ProtocolError("an error message" + number() +
                            " has a reason that isn't UTF-8: " + shown(as_text(reason)));
      }
      return {MessageType::kError, sequence};
    }
    default:
      throw ProtocolError("an untagged message" + number() + " is of type " + std::to_string(type) +
                          "; the known types are 0 (End of Stream), 1 (metadata) and 255 (error)");
  }
}

Tag read_tag(std::uint64_t tag) {
  const auto sequence = static_cast<std::uint32_t>(tag);
  const auto type = static_cast<unsigned>(tag >> 56);
  if (((tag >> 32) & 0xFFFFFF) != 0) {
    throw ProtocolError("the tag " + std::to_string(tag) + " of body " + std::to_string(sequence) +
                        " has reserved bits set (32 to 55); they must be 0");
  }
  if (type > static_cast<unsigned>(BodyType::kRemote)) {
    throw ProtocolError("the tag of body " + std::to_string(sequence) + " says body type " + std::to_string(type) +
                        "; the known types are 0 (packed bytes) and 1 (addresses)");
  }
  return {sequence, static_cast<BodyType>(type)};
}

void write_remote_body(std::span<const RemoteBuffer> buffers, std::vector<std::byte>* out) {
  out->resize(kPair * (buffers.size() + 1));
  std::uint64_t total = 0;
  for (const RemoteBuffer& buffer : buffers) total += buffer.length;
  const RemoteBuffer head = remote_body_head(total, buffers.size());
  std::memcpy(out->data(), &head, kPair);
  if (!buffers.empty()) std::memcpy(out->data() + kPair, buffers.data(), buffers.size_bytes());
}

void read_remote_body(ByteSpan body, std::vector<RemoteBuffer>* out) {
  const std::uint64_t total = copy_remote_body(body, out);
  check_remote_body(*out, total);
}

std::uint64_t copy_remote_body(ByteSpan body, std::vector<RemoteBuffer>* out) {
  if (body.size() < kPair || body.size() % kPair != 0) {
    throw ProtocolError("a body of addresses has " + std::to_string(body.size()) +
                        " bytes; it must have 16 for the total and the count, and 16 for each buffer");
  }
  const auto count = load_le<std::uint64_t>(body.data() + kWord);
  if (count != body.size() / kPair - 1) {
    throw ProtocolError("a body of addresses says that it has " + std::to_string(count) + " buffers; its " +
                        std::to_string(body.size()) + " bytes hold " + std::to_string(body.size() / kPair - 1));
  }
  out->resize(count);
  if (count != 0) std::memcpy(out->data(), body.data() + kPair, count * kPair);
  return load_le<std::uint64_t>(body.data());
}

void check_remote_body(std::span<const RemoteBuffer> buffers, std::uint64_t total) {
  std::uint64_t sum = 0;
  for (const RemoteBuffer& buffer : buffers) {
    const bool fits = checked_add(sum, buffer.length, &sum);
    if (fits && (buffer.length != 0 || buffer.address == 0)) [[likely]]
      continue;
    const std::string number = std::to_string(&buffer - buffers.data());
    if (!fits) throw ProtocolError("the lengths in a body of addresses overflow 64 bits at buffer " + number);
    throw ProtocolError("buffer " + number + " of a body of addresses has address " + std::to_string(buffer.address) +
                        " and length 0; an absent or empty buffer is (0, 0)");
  }
  if (sum != total) {
    throw ProtocolError("a body of addresses says that its buffers have " + std::to_string(total) +
                        " bytes in total; their lengths add up to " + std::to_string(sum));
  }
}

}  // namespace crossdock::dissociated
