#pragma once

#include <poll.h>

#include <cerrno>
#include <coroutine>
#include <exception>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

/// The smallest event loop that coroutines can wait on, in the place of a program's own (epoll, libuv, Asio). One
/// thread.
class EventLoop {
 public:
  /// Has `ready` called once, by run(), when the descriptor is readable.
  void when_readable(int descriptor, std::function<void()> ready) {
    waiting_.push_back({descriptor, std::move(ready)});
  }
  /// Runs until nothing waits any more.
  void run() {
    while (!waiting_.empty()) {
      std::vector<pollfd> descriptors;
      for (const Entry& entry : waiting_) descriptors.push_back({entry.descriptor, POLLIN, 0});
      if (::poll(descriptors.data(), descriptors.size(), -1) < 0 && errno != EINTR) {
        throw std::system_error(errno, std::generic_category(), "poll");
      }
      std::vector<Entry> now = std::exchange(waiting_, {});
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (descriptors[i].revents == 0) {
          waiting_.push_back(std::move(now[i]));
        } else {
          now[i].ready();
        }
      }
    }
  }

 private:
  struct Entry {
    int descriptor;
    std::function<void()> ready;
  };
  std::vector<Entry> waiting_;
};

/// A coroutine that begins at once, and whose result is asked for when the loop has ended.
class Task {
 public:
  struct promise_type {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
    std::exception_ptr error;
  };
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }
  /// Throws what the coroutine has thrown.
  void get() const {
    if (coroutine_.promise().error) std::rethrow_exception(coroutine_.promise().error);
  }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};
