#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "crossdock/array/schema.h"

namespace crossdock::array {

/// Returns run end `i` of a buffer. `type` is one of the three integer types of run ends; the caller has checked that
/// the bytes exist.
inline std::int64_t load_run_end(TypeId type, const void* data, std::int64_t i) noexcept {
  const auto* bytes = static_cast<const std::byte*>(data);
  switch (type) {
    case TypeId::kInt16: return load_le<std::int16_t>(bytes + i * 2);
    case TypeId::kInt32: return load_le<std::int32_t>(bytes + i * 4);
    default: return load_le<std::int64_t>(bytes + i * 8);
  }
}

/// Stores run end `i`; `end` fits the type.
inline void store_run_end(TypeId type, std::byte* bytes, std::int64_t i, std::int64_t end) noexcept {
  switch (type) {
    case TypeId::kInt16: store_le<std::int16_t>(bytes + i * 2, static_cast<std::int16_t>(end)); return;
    case TypeId::kInt32: store_le<std::int32_t>(bytes + i * 4, static_cast<std::int32_t>(end)); return;
    default: store_le<std::int64_t>(bytes + i * 8, end);
  }
}

}  // namespace crossdock::array
