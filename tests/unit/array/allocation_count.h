#pragma once

#include <cstdint>

namespace crossdock::array::test {

/// Calls of operator new on this thread since it began. Counted by replacements of the global operators in this
/// program.
std::int64_t allocations() noexcept;

}  // namespace crossdock::array::test
