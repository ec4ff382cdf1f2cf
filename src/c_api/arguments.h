#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/c_api/status.h"
#include "crossdock/core/time_limit.h"
#include "crossdock/device/device.h"
#include "crossdock/transport/options.h"

/// Checks of what C callers pass. All functions throw InvalidArgumentError, which names the argument, unless they say
/// otherwise.
namespace crossdock::c_api {

inline constexpr std::size_t kMaxText = std::size_t{1} << 20;      ///< Bytes of one text.
inline constexpr std::size_t kMaxElements = std::size_t{1} << 20;  ///< Elements of an array of a caller.

[[noreturn]] void throw_null(const char* what);
[[noreturn]] void throw_sizes_differ(const char* what, std::size_t element);

/// Returns what a pointer leads to; throws for null.
template <class T>
T& need(T* pointer, const char* what) {
  if (pointer == nullptr) throw_null(what);
  return *pointer;
}

/// Returns the place for a result, and sets it to null.
template <class T>
T*& result(T** place, const char* what) {
  need(place, what) = nullptr;
  return *place;
}

/// Returns a text's bytes; `text.data` may be null if it is empty.
std::string_view view_of(crossdock_string text, const char* what);
inline std::string text_of(crossdock_string text, const char* what) { return std::string(view_of(text, what)); }
/// Returns a text that goes to the system as a C string: also throws for a NUL byte in it.
std::string c_text_of(crossdock_string text, const char* what);

void check_array(const void* first, std::size_t n, const char* what);
/// Returns a view of a caller's array; `first` may be null if `n` is 0.
template <class T>
std::span<T> array_of(T* first, std::size_t n, const char* what) {
  check_array(first, n, what);
  return {first, n};
}
std::vector<std::string> texts_of(const crossdock_string* first, std::size_t n, const char* what);

/// Whether a struct of C callers has no padding. Bytes of padding that later become a member would be set by chance.
template <class T>
inline constexpr bool kHasNoPadding = std::has_unique_object_representations_v<T>;

/// Copies a struct of options whose first member is its size, as its caller knows it, into `options`, and sets its size
/// to `known`. `first_size` is that of the first version that had the struct. Members that the caller doesn't know stay
/// 0. Throws InvalidArgumentError for a size that no version has, and UnsupportedError if a member that isn't known
/// here is set.
void read_options(void* options, std::size_t known, std::size_t first_size, const void* given, const char* what);

/// Returns a copy of a caller's options; null: the defaults.
template <class T>
T options_of(const T* given, std::size_t first_size, const char* what) {
  static_assert(kHasNoPadding<T>);
  T options{};
  if (given != nullptr) read_options(&options, sizeof(T), first_size, given, what);
  return options;
}

/// Returns the size that is the first member of a caller's struct. Throws for a size that no version has.
std::size_t size_in(const void* given, std::size_t first_size, const char* what);

/// Sets a caller's struct for a result, whose first member is its size, to 0 behind that member: also the members that
/// only a later version has. So a failure leaves 0, and no member is left as it was. Throws for a size that no version
/// has, and writes nothing then.
void clear_result(void* given, std::size_t first_size, const char* what);

/// Writes a result to a struct that clear_result() has cleared. The caller's size stays, and limits what is written.
template <class T>
void write_result(T* given, T value) {
  static_assert(kHasNoPadding<T>);
  value.size = given->size;
  std::memcpy(given, &value, std::min(given->size, sizeof value));
}

/// Returns copies of the structs of a caller's array, each of which begins with its size, which is the same in all of
/// them: their distance. Reads each as read_options() does. `what` names the array, `type` the struct.
template <class T>
std::vector<T> structs_of(const T* first, std::size_t n, std::size_t first_size, const char* what, const char* type) {
  static_assert(kHasNoPadding<T>);
  check_array(first, n, what);
  std::vector<T> read(n);
  if (n == 0) return read;
  const std::size_t size = size_in(first, first_size, type);
  const auto* at = reinterpret_cast<const unsigned char*>(first);
  for (std::size_t i = 0; i < n; ++i, at += size) {
    if (size_in(at, first_size, type) != size) throw_sizes_differ(what, i);
    read_options(&read[i], sizeof(T), first_size, at, type);
  }
  return read;
}

/// Returns a limit of time for the functions of the library: none if it is negative.
TimeLimit time_limit(std::int64_t timeout_ms) noexcept;
/// Returns the device that a type and a number name; nullopt for type 0, and for the CPU.
std::optional<device::Device> device_of(ArrowDeviceType type, std::int64_t id);
transport::WaitMode wait_of(std::int32_t wait);
std::optional<array::Validation> validation_of(std::int32_t validation);

/// Frees a handle and sets its place to null.
template <class T>
void release(T** handle) noexcept {
  if (handle != nullptr) delete std::exchange(*handle, nullptr);
}

}  // namespace crossdock::c_api
