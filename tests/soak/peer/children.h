#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "soak/peer/consume.h"

/// Processes that are killed, and what their drivers say of them.
namespace crossdock::soak {

using Clock = std::chrono::steady_clock;

/// The exit code of a child whose body threw; standard error says what.
constexpr int kBroke = 1;

/// Forks a child that runs `body` and exits with what that returns. The caller has one thread.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid > 0) return pid;
  int code = kBroke;
  try {
    if (::getppid() == parent) code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(code);
}

/// How a child ended, in words.
inline std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

inline int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Whether it hasn't ended yet; leaves its status for wait_for().
inline bool still_runs(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

/// Kills the child. True: it still ran until then; else `*status` says how it had ended.
inline bool kill_child(pid_t pid, int* status) {
  ::kill(pid, SIGKILL);
  *status = wait_for(pid);
  return WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
}

/// How long a process lives at most until it is killed: long enough to serve, or to read, some tables.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::chrono::microseconds kLongestLife{400'000};
#else
constexpr std::chrono::microseconds kLongestLife{60'000};
#endif

/// From 50 microseconds to kLongestLife, short ones as likely as long ones: each step after a stage is met.
inline std::chrono::microseconds random_life(std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(std::log(50.0), std::log(static_cast<double>(kLongestLife.count())));
  return std::chrono::microseconds(static_cast<std::int64_t>(std::exp(exponent(random))));
}

/// Which stage a victim must have come to: each as likely.
inline Stage random_stage(std::mt19937_64& random) {
  return std::array{Stage::kStarted, Stage::kConnected, Stage::kWorks}[random() % 3];
}

/// Waits until the child has come so far, or has ended. False: neither within a minute.
inline bool wait_for_stage(pid_t pid, Stage stage, const std::function<Stage()>& reached) {
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(60);
  while (reached() < stage && still_runs(pid)) {
    if (Clock::now() > patience) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

/// An array that this process shares with its children.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t count) : size_(count * sizeof(T)) {
    void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    items_ = new (memory) T[count]{};
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(items_, size_); }
  T& operator[](std::size_t index) const { return items_[index]; }

 private:
  std::size_t size_;
  T* items_ = nullptr;
};

/// What a driver found, as members of a JSON object.
class Findings {
 public:
  void add(const std::string& text) { texts_.push_back(text); }
  std::string json() const {
    std::string list;
    for (const std::string& text : texts_) list += (list.empty() ? "\"" : ", \"") + text + "\"";
    return "\"findings\": [" + list + "]";
  }

 private:
  std::vector<std::string> texts_;
};

}  // namespace crossdock::soak
