#include "array/internal/utf8.h"

#include <array>

#include "core/bytes.h"

namespace crossdock::array {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080u;

/// States, by the condition for the next byte: the rows of RFC 3629's table (section 4), read from left to right.
enum State : std::uint8_t {
  kStart,      ///< The first byte of a character.
  kLast,       ///< Any continuation, the last one.
  kLastTwo,    ///< Any continuation, and one more.
  kLastThree,  ///< Any continuation, and two more.
  kAfterE0,    ///< A0 to BF, and one more: no overlong forms.
  kAfterEd,    ///< 80 to 9F, and one more: no surrogates.
  kAfterF0,    ///< 90 to BF, and two more: no overlong forms.
  kAfterF4,    ///< 80 to 8F, and two more: nothing over U+10FFFF.
  kBroken,
  kStates,
};

constexpr State after_start(int byte) noexcept {
  if (byte < 0x80) return kStart;
  if (byte < 0xc2) return kBroken;
  if (byte < 0xe0) return kLast;
  if (byte == 0xe0) return kAfterE0;
  if (byte == 0xed) return kAfterEd;
  if (byte < 0xf0) return kLastTwo;
  if (byte == 0xf0) return kAfterF0;
  if (byte < 0xf4) return kLastThree;
  return byte == 0xf4 ? kAfterF4 : kBroken;
}

constexpr State after(State state, int byte) noexcept {
  const auto within = [byte](int low, int high, State next) { return byte >= low && byte <= high ? next : kBroken; };
  switch (state) {
    case kStart: return after_start(byte);
    case kLast: return within(0x80, 0xbf, kStart);
    case kLastTwo: return within(0x80, 0xbf, kLast);
    case kLastThree: return within(0x80, 0xbf, kLastTwo);
    case kAfterE0: return within(0xa0, 0xbf, kLast);
    case kAfterEd: return within(0x80, 0x9f, kLast);
    case kAfterF0: return within(0x90, 0xbf, kLastTwo);
    case kAfterF4: return within(0x80, 0x8f, kLastTwo);
    default: return kBroken;
  }
}

// The automaton as one number per byte value: the bits from s * kStateBits on are the next state for state s. A state
// is stored as such a bit position. So a step is a table look-up and a shift, without a branch that could be
// mispredicted.
constexpr int kStateBits = 6;
constexpr std::uint64_t kStateMask = (1u << kStateBits) - 1;
static_assert(kStates * kStateBits <= 64);

constexpr std::array<std::uint64_t, 256> kSteps = [] {
  std::array<std::uint64_t, 256> steps{};
  for (int byte = 0; byte < 256; ++byte) {
    for (int state = 0; state < kStates; ++state) {
      const auto next = static_cast<std::uint64_t>(after(static_cast<State>(state), byte)) * kStateBits;
      steps[static_cast<std::size_t>(byte)] |= next << (state * kStateBits);
    }
  }
  return steps;
}();

}  // namespace

bool is_ascii(const std::byte* data, std::int64_t size) noexcept {
  // Blocks small enough to stop early, large enough for vector instructions.
  constexpr std::int64_t kBlock = 512;
  std::int64_t i = 0;
  for (; size - i >= kBlock; i += kBlock) {
    std::uint64_t any = 0;
    for (std::int64_t w = 0; w < kBlock; w += 8) any |= load_le<std::uint64_t>(data + i + w);
    if ((any & kHighBits) != 0) return false;
  }
  std::uint64_t any = 0;
  for (; size - i >= 8; i += 8) any |= load_le<std::uint64_t>(data + i);
  for (; i < size; ++i) any |= std::to_integer<std::uint64_t>(data[i]);
  return (any & kHighBits) == 0;
}

bool is_utf8(const std::byte* data, std::int64_t size) noexcept {
  std::uint64_t state = kStart;
  const auto step = [&state](std::byte byte) {
    state = kSteps[std::to_integer<std::uint8_t>(byte)] >> (state & kStateMask);
  };
  // Skips ASCII between two characters in blocks: large ones for long texts, small ones for the rest.
  const auto take_block = [&](std::int64_t at, std::int64_t block) {
    std::uint64_t any = 0;
    for (std::int64_t w = 0; w < block; w += 8) any |= load_le<std::uint64_t>(data + at + w);
    if ((any & kHighBits) == 0 && (state & kStateMask) == kStart) return;
    for (std::int64_t end = at + block; at < end; ++at) step(data[at]);
  };
  std::int64_t i = 0;
  for (; size - i >= 32; i += 32) {
    take_block(i, 32);
    if ((state & kStateMask) == std::uint64_t{kBroken} * kStateBits) return false;
  }
  for (; size - i >= 8; i += 8) take_block(i, 8);
  for (; i < size; ++i) step(data[i]);
  return (state & kStateMask) == kStart;
}

}  // namespace crossdock::array
