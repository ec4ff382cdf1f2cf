#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

/// The control messages after the handshake, in bytes. docs/protocol-ucx.md is the specification.
namespace crossdock::transport::ucx {

enum class ControlKind : std::uint32_t {
  kTaken = 1,    ///< How many messages this end has taken in total.
  kWindow = 2,   ///< How many messages this end allows in flight: tells the peer how often to acknowledge them.
  kGoodbye = 3,  ///< This end closes, after it has sent so many messages in total.
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

/// Returns false for an unknown kind, another size, or bytes that must be zero and aren't.
[[nodiscard]] inline bool decode(ByteSpan bytes, Control* control) noexcept {
  if (bytes.size() != kControlBytes) return false;
  const auto kind = load_le<std::uint64_t>(bytes.data());
  if (kind < 1 || kind > static_cast<std::uint64_t>(ControlKind::kGoodbye)) return false;
  control->kind = static_cast<ControlKind>(kind);
  control->number = load_le<std::uint64_t>(bytes.data() + 8);
  return true;
}

}  // namespace crossdock::transport::ucx
