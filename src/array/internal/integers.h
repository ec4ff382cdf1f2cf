#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Calls `f` with a zero of an integer type.
template <typename F>
auto with_integer(TypeId id, F&& f) {
  switch (id) {
    case TypeId::kInt8: return f(std::int8_t{});
    case TypeId::kInt16: return f(std::int16_t{});
    case TypeId::kInt32: return f(std::int32_t{});
    case TypeId::kInt64: return f(std::int64_t{});
    case TypeId::kUInt8: return f(std::uint8_t{});
    case TypeId::kUInt16: return f(std::uint16_t{});
    case TypeId::kUInt32: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

/// Returns number `i` of a buffer, read by load_once().
template <typename T>
T number_at(const std::byte* numbers, std::int64_t i) noexcept {
  return load_once<T>(numbers + i * static_cast<std::int64_t>(sizeof(T)));
}

/// Returns number `i` of a buffer of any integer type, read by load_once(). An unsigned number over 63 bits becomes
/// negative. The caller has checked that the bytes exist.
inline std::int64_t load_integer(TypeId type, const void* data, std::int64_t i) noexcept {
  return with_integer(type, [&](auto zero) {
    return static_cast<std::int64_t>(number_at<decltype(zero)>(static_cast<const std::byte*>(data), i));
  });
}

/// Returns the first run of [from, to) that ends at `least` or later; `to` if none does. Reads a run end at most once.
inline std::int64_t find_run(TypeId type, const void* ends, std::int64_t from, std::int64_t to,
                             std::int64_t least) noexcept {
  while (from < to) {
    const std::int64_t middle = from + (to - from) / 2;
    if (load_integer(type, ends, middle) < least) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

/// Stores run end `i`; `end` fits the type.
inline void store_run_end(TypeId type, std::byte* bytes, std::int64_t i, std::int64_t end) noexcept {
  with_integer(type, [&](auto zero) {
    store_le(bytes + i * static_cast<std::int64_t>(sizeof zero), static_cast<decltype(zero)>(end));
  });
}

}  // namespace crossdock::array
