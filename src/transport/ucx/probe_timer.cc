#include "probe_timer.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {

ProbeTimer::ProbeTimer(int watched, int interval_s, std::string where)
    : where_(std::move(where)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!timer_ || !poll_) throw_errno(errno, "making a descriptor to wait on for " + where_);
  for (const int descriptor : {watched, timer_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
      throw_errno(errno, "watching the connection to " + where_);
    }
  }
  set(interval_s);
}

void ProbeTimer::set(int interval_s) {
  if (interval_s == interval_s_) return;
  const itimerspec when{.it_interval = {.tv_sec = interval_s, .tv_nsec = 0},
                        .it_value = {.tv_sec = interval_s, .tv_nsec = 0}};
  if (::timerfd_settime(timer_.get(), 0, &when, nullptr) != 0) throw_errno(errno, "setting a timer for " + where_);
  interval_s_ = interval_s;
}

bool ProbeTimer::due() noexcept {
  std::uint64_t times = 0;
  return ::read(timer_.get(), &times, sizeof times) == sizeof times;
}

}  // namespace crossdock::transport::ucx
