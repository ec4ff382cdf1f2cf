#pragma once

#include <cstddef>

#include "crossdock/core/export.h"

namespace crossdock {

/// While it lives, the calling thread takes no signals, and the threads that it starts never do: they inherit what is
/// blocked, and signals are for the program's own threads.
class CROSSDOCK_EXPORT BlockedSignals {
 public:
  BlockedSignals() noexcept;
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();

 private:
  alignas(8) std::byte before_[128];  // a sigset_t
};

}  // namespace crossdock
