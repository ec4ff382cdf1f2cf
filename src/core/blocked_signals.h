#pragma once

#include <cstddef>

namespace crossdock {

/// Blocks all signals in the calling thread while this object lives. Threads that it starts meanwhile inherit the
/// signal mask and never take signals: signals are for the program's own threads.
class BlockedSignals {
 public:
  BlockedSignals() noexcept;
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();

 private:
  alignas(8) std::byte before_[128];  // a sigset_t
};

}  // namespace crossdock
