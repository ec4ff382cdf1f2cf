#include "session/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <thread>
#include <vector>

namespace crossdock::session {
namespace {

int cores() noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

/// Threads inherit what is blocked: ours must not take the signals of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void run_parallel(int most, const std::function<void(int worker)>& work) {
  const int n = std::min(most, cores());
  std::vector<std::jthread> helpers;
  if (n > 1) {
    helpers.reserve(static_cast<std::size_t>(n - 1));
    const SignalsBlocked blocked;
    try {
      for (int i = 1; i < n; ++i) helpers.emplace_back([&work, i] { work(i); });
    } catch (const std::system_error&) {
      // No more threads to be had: fewer do.
    }
  }
  work(0);
}

}  // namespace crossdock::session
