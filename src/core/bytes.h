#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace crossdock {

/// A view of bytes, which it doesn't own. Always host-readable: memory of other devices is passed as `device` types,
/// never as a span.
using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

static_assert(
    std::endian::native == std::endian::little,
    "Crossdock's wire formats are little-endian and are read in place; a big-endian port must swap here first");

/// Reads a little-endian integer at any alignment. The caller has checked that sizeof(T) bytes are there.
template <std::integral T>
T load_le(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Reads like load_le(), but memory that another thread or process may write at the same time. Reads it once, so that
/// the number that was checked is the number that is used. (With load_le() the compiler may read the memory again at
/// each use.)
template <std::integral T>
T load_once(const std::byte* from) noexcept {
  T value = load_le<T>(from);
  asm volatile("" : "+r"(value));
  return value;
}

template <std::integral T>
void store_le(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

/// Returns the pointer `distance` bytes further on, computed from the address. It may be null, a device's pointer, or
/// end up outside of its object, as long as it isn't dereferenced.
template <class T>
T* moved_by(T* pointer, std::int64_t distance) noexcept {
  // Pointer arithmetic out of an object's bounds is undefined; arithmetic on its address isn't.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) + static_cast<std::uintptr_t>(distance));
}

inline ByteSpan as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_text(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The alignment of buffers of arrays, in bytes: Arrow recommends it.
inline constexpr std::uint64_t kBufferAlignment = 64;

/// Returns `size` rounded up to a multiple of `alignment`, a power of two. The caller keeps `size` far from the type's
/// limit.
constexpr std::uint64_t align_up(std::uint64_t size, std::uint64_t alignment) noexcept {
  return (size + alignment - 1) & ~(alignment - 1);
}

/// Stores the sum in `*sum`. Returns true if it doesn't overflow.
template <std::integral T>
[[nodiscard]] bool checked_add(T a, T b, T* sum) noexcept {
  return !__builtin_add_overflow(a, b, sum);
}

template <std::integral T>
[[nodiscard]] bool checked_multiply(T a, T b, T* product) noexcept {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace crossdock
