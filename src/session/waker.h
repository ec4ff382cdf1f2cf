#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "crossdock/core/unique_fd.h"

namespace crossdock::session {

class ConnectionWaker;

/// Wakes the I/O thread from others. notify() is a store and a load unless the thread sleeps. Thread-safe.
class Waker {
 public:
  Waker();
  void notify() noexcept;

  // For the I/O thread:
  std::uint64_t seen() const noexcept { return events_.load(std::memory_order_seq_cst); }
  /// False: something was notified since `seen`; don't sleep.
  bool prepare_sleep(std::uint64_t seen) noexcept;
  void woke() noexcept;
  int descriptor() const noexcept { return fd_.get(); }
  /// A connection that a ConnectionWaker has woken since, each once; null: there is no more.
  void* next_woken() noexcept;

 private:
  friend class ConnectionWaker;
  UniqueFd fd_;
  std::atomic<std::uint64_t> events_{0};
  std::atomic<bool> sleeping_{false};
  std::mutex mutex_;
  ConnectionWaker* woken_ = nullptr;  // a list
};

/// Wakes the I/O thread for one connection, and only if that waits. Sources have it, and may outlive the connection.
class ConnectionWaker {
 public:
  /// `connection` is what Waker::next_woken() gives.
  ConnectionWaker(std::shared_ptr<Waker> waker, void* connection) : waker_(std::move(waker)), connection_(connection) {}
  ~ConnectionWaker() { detach(); }
  ConnectionWaker(const ConnectionWaker&) = delete;
  ConnectionWaker& operator=(const ConnectionWaker&) = delete;

  /// Something has changed that the connection may wait for. Thread-safe.
  void notify() noexcept;

  // For the I/O thread:
  /// Before it looks whether there is something to do.
  std::uint64_t seen() const noexcept { return events_.load(std::memory_order_seq_cst); }
  /// There was nothing: the next notify() wakes it. False: something was notified since `seen`; look again.
  bool wait(std::uint64_t seen) noexcept;
  /// The connection has gone.
  void detach() noexcept;

 private:
  friend class Waker;
  void unlink() noexcept;

  const std::shared_ptr<Waker> waker_;
  std::atomic<std::uint64_t> events_{0};
  std::atomic<bool> waits_{false};
  // Guarded by the waker's mutex:
  void* connection_;  // null: gone
  bool linked_ = false;
  ConnectionWaker* before_ = nullptr;
  ConnectionWaker* after_ = nullptr;
};

}  // namespace crossdock::session
