#include "flight/data_parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "crossdock/core/error.h"
#include "flight/protobuf.h"

namespace crossdock::flight {
namespace {

constexpr std::uint32_t kDescriptor = 1, kHeader = 2, kAppMetadata = 3, kBody = 1000;
// The longest tag and length before a field's bytes.
constexpr std::size_t kMostHead = 20;
// Flight has four. Each is searched for in the parts, so that very many would take very long.
constexpr int kMostFields = 64;

Bytes copy(std::span<const ByteSpan> parts, std::size_t at, std::size_t size) {
  Bytes out(size);
  copy_out(parts, at, size, out.data());
  return out;
}

}  // namespace

void copy_out(std::span<const ByteSpan> parts, std::size_t at, std::size_t size, std::byte* to) {
  for (const ByteSpan part : parts) {
    if (size == 0) return;
    if (at >= part.size()) {
      at -= part.size();
      continue;
    }
    const ByteSpan taken = part.subspan(at, std::min(size, part.size() - at));
    std::memcpy(to, taken.data(), taken.size());
    to += taken.size();
    size -= taken.size();
    at = 0;
  }
}

DataParts read_data(std::span<const ByteSpan> parts) {
  std::size_t total = 0;
  for (const ByteSpan part : parts) total += part.size();
  DataParts out;
  std::array<std::byte, kMostHead> head{};
  int fields = 0;
  for (std::size_t at = 0; at < total;) {
    if (++fields > kMostFields) {
      throw ProtocolError("a FlightData has over " + std::to_string(kMostFields) + " fields");
    }
    // The head of a field is read from a copy, and its bytes are passed over.
    const std::size_t here = std::min(head.size(), total - at);
    copy_out(parts, at, here, head.data());
    const ProtoHead field = read_head(ByteSpan(head).first(here), total - at, "a FlightData");
    const std::size_t bytes_at = at + field.size;
    const bool known =
        field.number == kDescriptor || field.number == kHeader || field.number == kAppMetadata || field.number == kBody;
    if (known && field.type != WireType::kBytes) {
      throw ProtocolError("a FlightData has field " + std::to_string(field.number) + " of wire type " +
                          std::to_string(static_cast<int>(field.type)) + " instead of 2");
    }
    switch (field.number) {
      case kDescriptor: out.descriptor = decode_descriptor(copy(parts, bytes_at, field.bytes)); break;
      case kHeader: out.header = copy(parts, bytes_at, field.bytes); break;
      case kAppMetadata: out.app_metadata = copy(parts, bytes_at, field.bytes); break;
      case kBody:
        out.body_at = bytes_at;
        out.body_size = field.bytes;
        break;
      default: break;
    }
    at = bytes_at + field.bytes;
  }
  return out;
}

}  // namespace crossdock::flight
