#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/event_fd.h"

namespace crossdock::session {

class ConnectionWaker;

/// Wakes the I/O thread from other threads. notify() costs a store and a load unless the thread sleeps. Thread-safe.
class Waker {
 public:
  void notify() noexcept;

  // For the I/O thread:
  std::uint64_t seen() const noexcept { return events_.load(std::memory_order_seq_cst); }
  /// Returns false if notify() was called since `seen`: then don't sleep.
  bool prepare_sleep(std::uint64_t seen) noexcept;
  void woke() noexcept;
  int descriptor() const noexcept { return fd_.get(); }
  /// Returns a connection that a ConnectionWaker has woken since the last call, each one once; null: there are no more.
  void* next_woken() noexcept;

 private:
  friend class ConnectionWaker;
  EventFd fd_{"the server's wake-up descriptor"};
  std::atomic<std::uint64_t> events_{0};
  std::atomic<bool> sleeping_{false};
  std::mutex mutex_;
  ConnectionWaker* woken_ = nullptr;  // a list
};

/// Wakes the I/O thread for one connection, and only if this connection waits. Sources share it, and may outlive the
/// connection.
class ConnectionWaker {
 public:
  /// `connection` is the value that Waker::next_woken() returns.
  ConnectionWaker(std::shared_ptr<Waker> waker, void* connection) : waker_(std::move(waker)), connection_(connection) {}
  ~ConnectionWaker() { detach(); }
  ConnectionWaker(const ConnectionWaker&) = delete;
  ConnectionWaker& operator=(const ConnectionWaker&) = delete;

  /// Called when something has changed for which the connection may wait. Thread-safe.
  void notify() noexcept;

  // For the I/O thread:
  /// Called before the connection checks whether there is something to do.
  std::uint64_t seen() const noexcept { return events_.load(std::memory_order_seq_cst); }
  /// Called when there was nothing to do: the next notify() wakes the connection. Returns false if notify() was called
  /// since `seen`: then check again.
  bool wait(std::uint64_t seen) noexcept;
  /// Called when the connection is destroyed.
  void detach() noexcept;

 private:
  friend class Waker;
  void unlink() noexcept;

  const std::shared_ptr<Waker> waker_;
  std::atomic<std::uint64_t> events_{0};
  std::atomic<bool> waits_{false};
  // Guarded by the waker's mutex:
  void* connection_;  // null: destroyed
  bool linked_ = false;
  ConnectionWaker* before_ = nullptr;
  ConnectionWaker* after_ = nullptr;
};

}  // namespace crossdock::session
