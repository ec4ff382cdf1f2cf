#pragma once

#include <poll.h>

#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

/// The smallest event loop that coroutines can wait on, in the place of a program's own (epoll, libuv, Asio). One
/// thread.
class EventLoop {
 public:
  /// Has `ready` called once, by run(), when the descriptor is readable. Returns a function that ends the watch.
  std::function<void()> when_readable(int descriptor, std::function<void()> ready) {
    const int number = next_number_++;
    waiting_.emplace(number, Entry{descriptor, std::move(ready)});
    return [this, number] { waiting_.erase(number); };
  }
  /// Runs until nothing waits any more.
  void run() {
    while (!waiting_.empty()) {
      std::vector<pollfd> descriptors;
      std::vector<int> numbers;
      for (const auto& [number, entry] : waiting_) {
        descriptors.push_back({entry.descriptor, POLLIN, 0});
        numbers.push_back(number);
      }
      if (::poll(descriptors.data(), descriptors.size(), -1) < 0 && errno != EINTR) {
        throw std::system_error(errno, std::generic_category(), "poll");
      }
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (descriptors[i].revents == 0) continue;
        if (auto entry = waiting_.extract(numbers[i]))
          entry.mapped().ready();  // unless another one has ended its watch
      }
    }
  }

 private:
  struct Entry {
    int descriptor;
    std::function<void()> ready;
  };
  std::map<int, Entry> waiting_;
  int next_number_ = 0;
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
