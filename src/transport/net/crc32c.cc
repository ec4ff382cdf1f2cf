#include "crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace crossdock::transport::net {
namespace {

// Polynomials are reflected: the highest bit is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78;
constexpr std::uint32_t kOne = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & kOne) != 0) product ^= b;
  }
  return product;
}

constexpr std::uint32_t x_to_the(std::uint64_t n) {
  std::uint32_t result = kOne;
  for (std::uint32_t square = kOne >> 1; n != 0; n >>= 1, square = multiply(square, square)) {
    if ((n & 1) != 0) result = multiply(result, square);
  }
  return result;
}

using Table = std::array<std::array<std::uint32_t, 256>, 4>;

/// Returns the table that maps each byte of a remainder to its value after `bytes` zeros.
constexpr Table make_shift(std::uint64_t bytes) {
  Table table{};
  const std::uint32_t factor = x_to_the(8 * bytes);
  for (std::uint32_t place = 0; place < 4; ++place) {
    for (std::uint32_t value = 0; value < 256; ++value) {
      table[place][value] = multiply(value << (8 * place), factor);
    }
  }
  return table;
}

constexpr std::uint32_t shift(const Table& table, std::uint32_t remainder) noexcept {
  return table[0][remainder & 0xFF] ^ table[1][(remainder >> 8) & 0xFF] ^ table[2][(remainder >> 16) & 0xFF] ^
         table[3][remainder >> 24];
}

// --- portable: eight bytes per step, with tables ---

constexpr Table kNextFour = make_shift(4);   // for the last four bytes
constexpr Table kNextEight = make_shift(8);  // for the four bytes before them

std::uint32_t portable(std::uint32_t before, ByteSpan bytes) noexcept {
  std::uint32_t remainder = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    remainder =
        shift(kNextEight, remainder ^ load_le<std::uint32_t>(at)) ^ shift(kNextFour, load_le<std::uint32_t>(at + 4));
  }
  for (; left > 0; --left, ++at) {
    const std::uint32_t value = (remainder ^ std::to_integer<std::uint32_t>(*at)) & 0xFF;
    remainder = (remainder >> 8) ^ kNextFour[3][value];
  }
  return ~remainder;
}

#if defined(__x86_64__) || defined(__aarch64__)

// --- the processor's instruction: three streams at once, since each step waits for the previous one ---

#if defined(__x86_64__)
#define CROSSDOCK_CRC_TARGET __attribute__((target("sse4.2")))
CROSSDOCK_CRC_TARGET inline std::uint32_t step8(std::uint32_t remainder, std::uint64_t value) noexcept {
  return static_cast<std::uint32_t>(_mm_crc32_u64(remainder, value));
}
CROSSDOCK_CRC_TARGET inline std::uint32_t step1(std::uint32_t remainder, std::uint8_t value) noexcept {
  return _mm_crc32_u8(remainder, value);
}
#else
#define CROSSDOCK_CRC_TARGET __attribute__((target("+crc")))
CROSSDOCK_CRC_TARGET inline std::uint32_t step8(std::uint32_t remainder, std::uint64_t value) noexcept {
  return __crc32cd(remainder, value);
}
CROSSDOCK_CRC_TARGET inline std::uint32_t step1(std::uint32_t remainder, std::uint8_t value) noexcept {
  return __crc32cb(remainder, value);
}
#endif

constexpr std::size_t kLongStream = 4096;
constexpr std::size_t kShortStream = 256;
constexpr Table kLongShift = make_shift(kLongStream);
constexpr Table kShortShift = make_shift(kShortStream);

template <std::size_t Stream>
CROSSDOCK_CRC_TARGET std::uint32_t three_streams(const Table& table, std::uint32_t remainder,
                                                 const std::byte* at) noexcept {
  std::uint32_t second = 0;
  std::uint32_t third = 0;
  for (std::size_t i = 0; i < Stream; i += 8) {
    remainder = step8(remainder, load_le<std::uint64_t>(at + i));
    second = step8(second, load_le<std::uint64_t>(at + Stream + i));
    third = step8(third, load_le<std::uint64_t>(at + 2 * Stream + i));
  }
  return shift(table, shift(table, remainder) ^ second) ^ third;
}

CROSSDOCK_CRC_TARGET std::uint32_t remainder_of(std::uint32_t remainder, const std::byte* at,
                                                std::size_t left) noexcept {
  for (; left >= 3 * kLongStream; left -= 3 * kLongStream, at += 3 * kLongStream) {
    remainder = three_streams<kLongStream>(kLongShift, remainder, at);
  }
  for (; left >= 3 * kShortStream; left -= 3 * kShortStream, at += 3 * kShortStream) {
    remainder = three_streams<kShortStream>(kShortShift, remainder, at);
  }
  for (; left >= 8; left -= 8, at += 8) remainder = step8(remainder, load_le<std::uint64_t>(at));
  for (; left > 0; --left, ++at) remainder = step1(remainder, std::to_integer<std::uint8_t>(*at));
  return remainder;
}

CROSSDOCK_CRC_TARGET std::uint32_t by_instruction(std::uint32_t before, ByteSpan bytes) noexcept {
  return ~remainder_of(~before, bytes.data(), bytes.size());
}

#endif

#if defined(__x86_64__)

// --- carry-less multiplication of vectors: 256 bytes per step, each folded onto the data 256 bytes further ---

constexpr std::size_t kStride = 256;
constexpr std::size_t kVector = 64;

#define CROSSDOCK_FOLD_TARGET __attribute__((target("avx512f,vpclmulqdq,sse4.2")))

/// Returns x^n as a factor of 64 bits. The product of two reflected factors is shifted by one bit, hence n - 1.
constexpr long long factor(std::uint64_t n) {
  const std::uint64_t reflected = std::uint64_t{x_to_the(n - 1)} << 32;
  return static_cast<long long>(reflected);
}

CROSSDOCK_FOLD_TARGET inline void load(const std::byte* from, __m512i* to) noexcept { *to = _mm512_loadu_si512(from); }

/// Folds `*value` onto the data one stride further, and stores the result in `*value`.
CROSSDOCK_FOLD_TARGET inline void fold(__m512i* value, const __m512i& factors, const std::byte* next) noexcept {
  constexpr int kXorOfThree = 0x96;
  const __m512i first = _mm512_clmulepi64_epi128(*value, factors, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(*value, factors, 0x11);
  *value = _mm512_ternarylogic_epi64(first, second, _mm512_loadu_si512(next), kXorOfThree);
}

CROSSDOCK_FOLD_TARGET std::uint32_t by_folding(std::uint32_t before, ByteSpan bytes) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  if (left < 2 * kStride) return by_instruction(before, bytes);
  // Of each 16 bytes, the first 8 are 64 bits further from the end.
  constexpr long long kFirst = factor(8 * kStride + 64);
  constexpr long long kSecond = factor(8 * kStride);
  const __m512i factors = _mm512_set_epi64(kSecond, kFirst, kSecond, kFirst, kSecond, kFirst, kSecond, kFirst);
  __m512i a;
  __m512i b;
  __m512i c;
  __m512i d;
  load(at, &a);
  load(at + kVector, &b);
  load(at + 2 * kVector, &c);
  load(at + 3 * kVector, &d);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~before))));
  for (at += kStride, left -= kStride; left >= kStride; at += kStride, left -= kStride) {
    fold(&a, factors, at);
    fold(&b, factors, at + kVector);
    fold(&c, factors, at + 2 * kVector);
    fold(&d, factors, at + 3 * kVector);
  }
  std::array<std::byte, kStride> folded;
  _mm512_storeu_si512(folded.data(), a);
  _mm512_storeu_si512(folded.data() + kVector, b);
  _mm512_storeu_si512(folded.data() + 2 * kVector, c);
  _mm512_storeu_si512(folded.data() + 3 * kVector, d);
  return ~remainder_of(remainder_of(0, folded.data(), kStride), at, left);
}

#endif

struct Methods {
  std::array<Crc32cMethod, 3> all{};
  std::size_t count = 0;
  void add(const char* name, decltype(Crc32cMethod::run) run) noexcept { all[count++] = {name, run}; }
};

Methods find_methods() noexcept {
  Methods methods;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0) {
    methods.add("vpclmulqdq", by_folding);
  }
  if (has_instruction) methods.add("sse4.2", by_instruction);
#elif defined(__aarch64__)
  constexpr unsigned long kHasCrc32 = 1 << 7;  // HWCAP_CRC32
  if ((::getauxval(AT_HWCAP) & kHasCrc32) != 0) methods.add("armv8-crc", by_instruction);
#endif
  methods.add("portable", portable);
  return methods;
}

const Methods& methods() noexcept {
  static const Methods found = find_methods();
  return found;
}

}  // namespace

std::uint32_t crc32c(std::uint32_t before, ByteSpan bytes) noexcept { return methods().all[0].run(before, bytes); }

std::span<const Crc32cMethod> crc32c_methods() noexcept { return std::span(methods().all).first(methods().count); }

}  // namespace crossdock::transport::net
