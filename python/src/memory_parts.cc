#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gil.h"
#include "module.h"
#include "session/parallel.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

constexpr int kMostThreads = 4;
constexpr std::uint64_t kPart = 1 << 20;
constexpr std::uint64_t kPerThread = 4 << 20;  // to start a thread takes as long as to read some 1 MiB

/// Calls `work(offset, size)` for each part of `size` bytes, on several threads: one alone doesn't keep the memory
/// busy. All have ended when it returns. `work` returns false to end early.
template <typename Work>
void in_parts(std::uint64_t size, const Work& work) {
  std::atomic<std::uint64_t> next{0};
  const auto threads = std::clamp<std::uint64_t>(size / kPerThread, 1, kMostThreads);
  session::run_parallel(static_cast<int>(threads), [&](int) {
    for (std::uint64_t at = 0; (at = next.fetch_add(kPart)) < size;) {
      if (!work(at, std::min(kPart, size - at))) next.store(size);
    }
  });
}

// The addresses are Python's, whose caller keeps the memory. NOLINTBEGIN(performance-no-int-to-ptr)
void copy_memory(std::uintptr_t to, std::uintptr_t from, std::uint64_t size) {
  const GilRelease release;
  auto* const target = reinterpret_cast<std::byte*>(to);
  const auto* const source = reinterpret_cast<const std::byte*>(from);
  in_parts(size, [=](std::uint64_t at, std::uint64_t length) {
    std::memcpy(target + at, source + at, length);
    return true;
  });
}

bool same_memory(std::uintptr_t one, std::uintptr_t other, std::uint64_t size) {
  const GilRelease release;
  const auto* const first = reinterpret_cast<const std::byte*>(one);
  const auto* const second = reinterpret_cast<const std::byte*>(other);
  std::atomic<bool> same{true};
  in_parts(size, [&](std::uint64_t at, std::uint64_t length) {
    if (std::memcmp(first + at, second + at, length) != 0) same = false;
    return same.load();
  });
  return same;
}
// NOLINTEND(performance-no-int-to-ptr)

}  // namespace

void bind_memory_parts(nb::module_& module) {
  module.def("copy_memory", copy_memory, "to"_a, "source"_a, "nbytes"_a,
             "Copies bytes from one address to another, by several threads. They don't overlap.");
  module.def("same_memory", same_memory, "one"_a, "other"_a, "nbytes"_a,
             "Returns whether the bytes at two addresses are the same.");
}

}  // namespace crossdock::python
