#include "core/release.h"

#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"
#include "core/fork.h"

namespace crossdock {
namespace {

// Passing memory to the thread costs about as much as unmapping some dozen pages.
constexpr std::uint64_t kLarge = 256 << 10;
// The time that the thread stays without work.
constexpr std::chrono::milliseconds kIdle{50};

struct Memory {
  const std::byte* start = nullptr;
  std::uint64_t bytes = 0;
  UniqueFd fd;
  std::shared_ptr<void> owner{};
  std::unique_ptr<Memory> next{};
};

/// Unmaps the mapping. The destructor closes the descriptor and drops the owner.
void unmap(const Memory& memory) noexcept {
  if (memory.start != nullptr) ::munmap(const_cast<std::byte*>(memory.start), memory.bytes);
}

class Releaser {
 public:
  // Never destroyed: memory is freed until the process ends.
  static Releaser& instance() {
    static auto* const releaser = new Releaser;
    return *releaser;
  }

  /// Takes `memory` and returns null; or returns `memory`, which then still belongs to the caller. The list has
  /// no limit: the I/O thread may release all memory of a consumer at once, and must not wait.
  std::unique_ptr<Memory> take(std::unique_ptr<Memory> memory) noexcept {
    if (made_in_.in_child()) return memory;  // the thread is the parent's, and perhaps the lock is held there
    const std::lock_guard lock(mutex_);
    if (!has_thread()) return memory;
    memory->next = std::exchange(waiting_, nullptr);
    waiting_ = std::move(memory);
    work_.notify_one();
    return nullptr;
  }

  bool wait() noexcept {
    if (made_in_.in_child()) return false;
    std::unique_lock lock(mutex_);
    if (!waiting_ && !busy_) return false;
    done_.wait(lock, [this] { return !waiting_ && !busy_; });
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
    while (work_.wait_for(lock, kIdle, [this] { return waiting_ != nullptr; })) {
      std::unique_ptr<Memory> memory = std::move(waiting_);
      waiting_ = std::move(memory->next);
      busy_ = true;
      lock.unlock();
      unmap(*memory);
      memory.reset();
      lock.lock();
      busy_ = false;
      if (!waiting_) done_.notify_all();
    }
    running_ = false;
  }

  const ForkGuard made_in_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::unique_ptr<Memory> waiting_;  // the last one first
  bool busy_ = false;
  bool running_ = false;
};

void release(Memory what, std::uint64_t size) noexcept {
  std::unique_ptr<Memory> memory(size >= kLarge ? new (std::nothrow) Memory : nullptr);
  if (!memory) return unmap(what);
  *memory = std::move(what);
  memory = Releaser::instance().take(std::move(memory));
  if (memory) unmap(*memory);
}

}  // namespace

void release_memory(const std::byte* start, std::uint64_t bytes, UniqueFd fd, std::uint64_t size) noexcept {
  release({start, bytes, std::move(fd)}, size);
}

void release_memory(std::shared_ptr<void> memory, std::uint64_t size) noexcept {
  release({.fd = {}, .owner = std::move(memory)}, size);
}

bool wait_for_released() noexcept { return Releaser::instance().wait(); }

}  // namespace crossdock
