#include "c_api/arguments.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "crossdock/c_api/client.h"
#include "crossdock/c_api/options.h"
#include "crossdock/core/error.h"
#include "crossdock/version.h"

namespace crossdock::c_api {
namespace {

constexpr std::size_t kMaxStruct = 4096;  ///< Bytes of a struct that begins with its size, of any version.

/// Returns `value` if it is one of 0, 1, ..., `highest`.
std::int32_t choice(std::int32_t value, std::int32_t highest, const char* what) {
  if (value >= 0 && value <= highest) return value;
  throw InvalidArgumentError(std::string(what) + " is " + std::to_string(value) + "; it is one of 0 to " +
                             std::to_string(highest));
}

}  // namespace

void throw_null(const char* what) { throw InvalidArgumentError(std::string(what) + " is NULL"); }

void throw_sizes_differ(const char* what, std::size_t element) {
  throw InvalidArgumentError(std::string(what) + ": element " + std::to_string(element) +
                             " has another size than the first one: set it in each of them");
}

std::string_view view_of(crossdock_string text, const char* what) {
  if (text.size == 0) return {};
  if (text.data == nullptr) {
    throw InvalidArgumentError(std::string(what) + ": data is NULL, and size is " + std::to_string(text.size));
  }
  if (text.size > kMaxText) {
    throw InvalidArgumentError(std::string(what) + " has " + std::to_string(text.size) + " bytes; the limit is " +
                               std::to_string(kMaxText));
  }
  return {text.data, text.size};
}

std::string c_text_of(crossdock_string text, const char* what) {
  const std::string_view view = view_of(text, what);
  if (view.find('\0') != std::string_view::npos) {
    throw InvalidArgumentError(std::string(what) + " has a NUL byte; size must not count the one at the end");
  }
  return std::string(view);
}

void check_array(const void* first, std::size_t n, const char* what) {
  if (n > kMaxElements) {
    throw InvalidArgumentError(std::string(what) + " has " + std::to_string(n) + " elements; the limit is " +
                               std::to_string(kMaxElements));
  }
  if (n != 0 && first == nullptr) throw_null(what);
}

std::vector<std::string> texts_of(const crossdock_string* first, std::size_t n, const char* what) {
  std::vector<std::string> texts;
  for (const crossdock_string& text : array_of(first, n, what)) texts.push_back(text_of(text, what));
  return texts;
}

std::size_t size_in(const void* given, std::size_t first_size, const char* what) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size >= first_size && size <= kMaxStruct) return size;
  throw InvalidArgumentError("the size of " + std::string(what) + " is " + std::to_string(size) +
                             "; set it to sizeof(" + what + ")");
}

void clear_result(void* given, std::size_t first_size, const char* what) {
  const std::size_t size = size_in(given, first_size, what);
  std::memset(static_cast<unsigned char*>(given) + sizeof size, 0, size - sizeof size);
}

void read_options(void* options, std::size_t known, std::size_t first_size, const void* given, const char* what) {
  const std::size_t size = size_in(given, first_size, what);
  const auto* const bytes = static_cast<const unsigned char*>(given);
  if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    throw UnsupportedError(std::string(what) + " has a member set that version " + CROSSDOCK_VERSION +
                           " of the library doesn't know: leave it 0, or use a newer library");
  }
  std::memcpy(options, given, std::min(size, known));
  std::memcpy(options, &known, sizeof known);
}

TimeLimit time_limit(std::int64_t timeout_ms) noexcept {
  if (timeout_ms < 0) return std::nullopt;
  return std::chrono::milliseconds(std::min<std::int64_t>(timeout_ms, std::numeric_limits<int>::max()));
}

std::optional<device::Device> device_of(ArrowDeviceType type, std::int64_t id) {
  if (type < 0) throw InvalidArgumentError("the device type is " + std::to_string(type) + "; 0 is the host");
  if (type == 0 || type == ARROW_DEVICE_CPU) return std::nullopt;
  return device::Device{static_cast<device::DeviceType>(type), id};
}

transport::WaitMode wait_of(std::int32_t wait) {
  constexpr transport::WaitMode kModes[] = {transport::WaitMode::kAuto, transport::WaitMode::kSpin,
                                            transport::WaitMode::kBlock};
  return kModes[choice(wait, CROSSDOCK_WAIT_BLOCK, "wait")];
}

std::optional<array::Validation> validation_of(std::int32_t validation) {
  switch (choice(validation, CROSSDOCK_VALIDATION_FULL, "validation")) {
    case CROSSDOCK_VALIDATION_STRUCTURE: return array::Validation::kStructure;
    case CROSSDOCK_VALIDATION_FULL: return array::Validation::kFull;
    default: return std::nullopt;
  }
}

}  // namespace crossdock::c_api
