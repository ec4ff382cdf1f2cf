#include "release.h"

#include <sys/mman.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "crossdock/core/blocked_signals.h"
#include "crossdock/core/fork.h"

namespace crossdock::device {
namespace {

constexpr std::uint64_t kLarge = 1 << 20;
// What may wait: it counts as free for everybody else.
constexpr std::size_t kMostWaiting = 64;
// How long the thread stays without work.
constexpr std::chrono::milliseconds kIdle{50};

struct Memory {
  const std::byte* start = nullptr;
  std::uint64_t bytes = 0;
  UniqueFd fd;
};

void give_back(Memory memory) noexcept {
  if (memory.start != nullptr) ::munmap(const_cast<std::byte*>(memory.start), memory.bytes);
}

class Releaser {
 public:
  // Never destroyed: memory is given back until the process ends.
  static Releaser& instance() {
    static auto* const releaser = new Releaser;
    return *releaser;
  }

  /// False: it is still the caller's.
  bool take(Memory* memory) noexcept {
    if (made_in_.in_child()) return false;  // the thread, and perhaps the lock, is the parent's
    const std::lock_guard lock(mutex_);
    if (waiting_ == kMostWaiting || !has_thread()) return false;
    memory_[(first_ + waiting_++) % kMostWaiting] = std::move(*memory);
    work_.notify_one();
    return true;
  }

  bool wait() noexcept {
    if (made_in_.in_child()) return false;
    std::unique_lock lock(mutex_);
    if (waiting_ == 0 && !busy_) return false;
    done_.wait(lock, [this] { return waiting_ == 0 && !busy_; });
    return true;
  }

 private:
  bool has_thread() noexcept {
    if (running_) return true;
    try {
      const BlockedSignals blocked;  // signals are for the program's own threads
      std::thread([this] { run(); }).detach();
      running_ = true;
    } catch (const std::exception&) {
    }
    return running_;
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (work_.wait_for(lock, kIdle, [this] { return waiting_ > 0; })) {
      Memory memory = std::move(memory_[first_]);
      first_ = (first_ + 1) % kMostWaiting;
      --waiting_;
      busy_ = true;
      lock.unlock();
      give_back(std::move(memory));
      lock.lock();
      busy_ = false;
      if (waiting_ == 0) done_.notify_all();
    }
    running_ = false;
  }

  const ForkGuard made_in_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::array<Memory, kMostWaiting> memory_;  // a ring: taking more needs no memory
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  bool busy_ = false;
  bool running_ = false;
};

}  // namespace

void release_memory(const std::byte* start, std::uint64_t bytes, UniqueFd fd, std::uint64_t size) noexcept {
  Memory memory{start, bytes, std::move(fd)};
  if (size >= kLarge && Releaser::instance().take(&memory)) return;
  give_back(std::move(memory));
}

bool wait_for_released() noexcept { return Releaser::instance().wait(); }

}  // namespace crossdock::device
