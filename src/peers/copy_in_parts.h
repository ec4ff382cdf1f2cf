#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace crossdock::peers {

/// Bytes to copy from one place to another. They don't overlap.
struct CopyPart {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t size = 0;
};

/// Other threads that may help with a copy.
struct CopyHelp {
  /// Has a task run on another thread, perhaps late. Throws if it can't; null: there is no help.
  std::function<void(std::function<void()>)> run;
  std::size_t most = 0;  ///< So many threads at most.
};

/// Copies the parts, and returns when all of them are copied. Large ones are split: one thread alone doesn't keep the
/// memory busy. Waits for no thread that hasn't begun to help. Throws std::bad_alloc; then parts may be copied.
void copy_in_parts(const std::vector<CopyPart>& parts, const CopyHelp& help);

}  // namespace crossdock::peers
