#include "core/blocked_signals.h"

#include <pthread.h>

namespace crossdock {

BlockedSignals::BlockedSignals() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

BlockedSignals::~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace crossdock
