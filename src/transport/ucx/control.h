#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "transport/transport.h"

/// The control messages after the handshake, in bytes. docs/reference/protocol-ucx.md is the specification.
namespace crossdock::transport::ucx {

enum class ControlKind : std::uint32_t {
  kTaken = 1,    ///< How many messages this end has taken in total.
  kWindow = 2,   ///< How many messages this end allows in flight: tells the peer how often to acknowledge them.
  kGoodbye = 3,  ///< This end closes, after it has sent so many messages in total.
  kRegion = 4,   ///< Memory of this end that the peer may read.
  kRetire = 5,   ///< A region's number names it no longer.
  kRead = 6,     ///< A request for bytes of the peer's regions.
};

struct Control {
  ControlKind kind = ControlKind::kTaken;
  std::uint64_t number = 0;
};

inline constexpr std::size_t kControlBytes = 16;

inline std::array<std::byte, kControlBytes> encode(const Control& control) noexcept {
  std::array<std::byte, kControlBytes> bytes{};
  store_le(bytes.data(), static_cast<std::uint32_t>(control.kind));
  store_le(bytes.data() + 8, control.number);
  return bytes;
}

/// Returns the kind of a message. `bytes` has at least 4.
inline ControlKind kind_of(ByteSpan bytes) noexcept {
  return static_cast<ControlKind>(load_le<std::uint32_t>(bytes.data()));
}

/// Returns false for another kind, another size, or bytes that must be zero and aren't.
[[nodiscard]] inline bool decode(ByteSpan bytes, Control* control) noexcept {
  if (bytes.size() != kControlBytes || load_le<std::uint32_t>(bytes.data() + 4) != 0) return false;
  control->kind = kind_of(bytes);
  control->number = load_le<std::uint64_t>(bytes.data() + 8);
  switch (control->kind) {
    case ControlKind::kTaken:
    case ControlKind::kWindow:
    case ControlKind::kGoodbye:
    case ControlKind::kRetire: return true;
    case ControlKind::kRegion:
    case ControlKind::kRead: break;  // they have layouts of their own
  }
  return false;
}

/// A message of kRegion.
struct RegionAnnouncement {
  std::uint16_t number = 0;
  std::uint64_t base = 0;  ///< The address of its first byte.
  std::uint64_t size = 0;
};

inline std::array<std::byte, 24> encode(const RegionAnnouncement& region) noexcept {
  std::array<std::byte, 24> bytes{};
  store_le(bytes.data(), static_cast<std::uint32_t>(ControlKind::kRegion));
  store_le(bytes.data() + 4, std::uint32_t{region.number});
  store_le(bytes.data() + 8, region.base);
  store_le(bytes.data() + 16, region.size);
  return bytes;
}

/// Returns false for another kind, another size, or bytes that must be zero and aren't.
[[nodiscard]] inline bool decode(ByteSpan bytes, RegionAnnouncement* region) noexcept {
  if (bytes.size() != 24 || kind_of(bytes) != ControlKind::kRegion) return false;
  const auto number = load_le<std::uint32_t>(bytes.data() + 4);
  region->number = static_cast<std::uint16_t>(number);
  region->base = load_le<std::uint64_t>(bytes.data() + 8);
  region->size = load_le<std::uint64_t>(bytes.data() + 16);
  return number == region->number;
}

inline constexpr std::size_t kMaxPartsOfRead = 4096;
/// Requests that a client may have sent without having all bytes of their answers.
inline constexpr std::size_t kMaxUnanswered = 1024;
/// The id of active messages that answer a request. Their header is the request's id, in 8 bytes.
inline constexpr unsigned kAnswerId = 2;

/// A message of kRead: a view of its bytes.
struct ReadRequest {
  static constexpr std::size_t kHead = 16;
  struct Part {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
  };

  std::uint64_t id = 0;
  ByteSpan parts;

  std::size_t count() const noexcept { return parts.size() / sizeof(Part); }
  Part part(std::size_t i) const noexcept {
    const std::byte* const at = parts.data() + i * sizeof(Part);
    return {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
  }
};

/// `parts` has at least one and at most kMaxPartsOfRead.
inline std::vector<std::byte> encode_read(std::uint64_t id, std::span<const ReadPart> parts) {
  std::vector<std::byte> bytes(ReadRequest::kHead + parts.size() * sizeof(ReadRequest::Part));
  store_le(bytes.data(), static_cast<std::uint32_t>(ControlKind::kRead));
  store_le(bytes.data() + 8, id);
  std::byte* at = bytes.data() + ReadRequest::kHead;
  for (const ReadPart& part : parts) {
    store_le(at, part.address);
    store_le(at + 8, part.length);
    at += sizeof(ReadRequest::Part);
  }
  return bytes;
}

/// Returns false for another kind, a size that no request has, or bytes that must be zero and aren't.
[[nodiscard]] inline bool decode(ByteSpan bytes, ReadRequest* request) noexcept {
  if (bytes.size() <= ReadRequest::kHead || kind_of(bytes) != ControlKind::kRead) return false;
  if (load_le<std::uint32_t>(bytes.data() + 4) != 0) return false;
  request->id = load_le<std::uint64_t>(bytes.data() + 8);
  request->parts = bytes.subspan(ReadRequest::kHead);
  return request->parts.size() % sizeof(ReadRequest::Part) == 0 && request->count() <= kMaxPartsOfRead;
}

inline constexpr std::size_t kMaxControlBytes = ReadRequest::kHead + kMaxPartsOfRead * sizeof(ReadRequest::Part);

}  // namespace crossdock::transport::ucx
