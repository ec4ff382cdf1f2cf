#include "transport/internal/accept_poll.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

// Of one look(): a listener's socket, two descriptors here and 64 clients. Where more is watched, as the closing ends
// of ucx, the system reports the rest at the next look(): those that were reported go to the end of its list.
constexpr std::size_t kEvents = 68;

}  // namespace

AcceptPoll::AcceptPoll(int listening_socket, std::string where)
    : where_(std::move(where)),
      socket_(listening_socket),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      always_(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!poll_ || !timer_ || !always_) throw_errno(errno, where_ + ": making a descriptor to wait on");
  // Clients are registered with the address of their flag; these two values can't be such an address.
  add(socket_, this);
  add(timer_.get(), nullptr);
  add(always_.get(), nullptr);
  change(always_.get(), false, nullptr);
}

/// Closing a socket doesn't unregister it while another descriptor of it is open, here or in a forked child.
void AcceptPoll::forget(int socket) const noexcept {
  if (!fork_.in_child()) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

void AcceptPoll::add(int descriptor, void* data) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = data}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw_errno(errno, where_ + ": watching a client");
  }
}

void AcceptPoll::await_room(int socket, bool* news, bool on) const {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | (on ? std::uint32_t{EPOLLOUT} : 0), .data = {.ptr = news}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, socket, &event) != 0) throw_errno(errno, where_ + ": watching a client");
}

bool AcceptPoll::look() {
  std::array<epoll_event, kEvents> events;
  const int n = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool waits = false;
  for (int i = 0; i < n; ++i) {
    void* const data = events[static_cast<std::size_t>(i)].data.ptr;
    if (data == this) {
      waits = true;
    } else if (data != nullptr) {
      *static_cast<bool*>(data) = true;
    }
  }
  return waits;
}

void AcceptPoll::change(int descriptor, bool watched, void* data) const {
  epoll_event event{.events = watched ? std::uint32_t{EPOLLIN} : 0, .data = {.ptr = data}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, descriptor, &event) != 0) {
    throw_errno(errno, where_ + ": watching for clients");
  }
}

void AcceptPoll::set_accepting(bool accepting) {
  if (accepting == accepting_) return;
  change(socket_, accepting, this);
  accepting_ = accepting;
}

void AcceptPoll::set_more(bool more) {
  if (more == more_) return;
  change(always_.get(), more, nullptr);
  more_ = more;
}

void AcceptPoll::set_deadline(std::optional<Clock::time_point> deadline) {
  const auto now = Clock::now();
  // A deadline that has passed must be set again: the timer stays readable until then.
  if (deadline == deadline_ && (!deadline || *deadline > now)) return;
  itimerspec when{};
  if (deadline) {
    const auto left = std::max<std::chrono::nanoseconds>(*deadline - now, std::chrono::nanoseconds(1));
    when.it_value = {.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                     .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
  }
  if (::timerfd_settime(timer_.get(), 0, &when, nullptr) != 0) throw_errno(errno, where_ + ": setting a timer");
  deadline_ = deadline;
}

}  // namespace crossdock::transport
