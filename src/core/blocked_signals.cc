#include "core/blocked_signals.h"

#include <pthread.h>

#include <csignal>
#include <new>

namespace crossdock {

BlockedSignals::BlockedSignals() noexcept {
  static_assert(sizeof(sigset_t) <= sizeof before_ && alignof(sigset_t) <= 8);
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, new (before_) sigset_t{});
}

BlockedSignals::~BlockedSignals() {
  ::pthread_sigmask(SIG_SETMASK, std::launder(reinterpret_cast<const sigset_t*>(before_)), nullptr);
}

}  // namespace crossdock
