#pragma once

#include <csignal>

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
  sigset_t before_;
};

}  // namespace crossdock
