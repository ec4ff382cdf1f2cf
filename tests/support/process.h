#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>

namespace crossdock::testing {

/// A forked child that runs `body` and exits with what it returns, or with kThrew and the reason on standard error; it
/// and its parent talk in lines. Killed with its owner, if it still lives. Fork before there are threads.
class ChildProcess {
 public:
  class Line {
   public:
    Line(int in, int out) : in_(in), out_(out) {}
    void say(const std::string& text) const {
      const std::string line = text + "\n";
      if (::write(out_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
    }
    /// One line; empty when the other end has gone.
    std::string hear() const {
      std::string line;
      char c = 0;
      while (::read(in_, &c, 1) == 1 && c != '\n') line += c;
      return line;
    }

   private:
    int in_;
    int out_;
  };

  explicit ChildProcess(const std::function<int(const Line&)>& body) {
    int up[2];
    int down[2];
    if (::pipe(up) != 0 || ::pipe(down) != 0) std::abort();
    wait_for_threads_that_end();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(up[0]);
      ::close(down[1]);
      ::_exit(run(body, Line(down[0], up[1])));
    }
    ::close(up[1]);
    ::close(down[0]);
    in_ = up[0];
    out_ = down[1];
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (pid_ > 0) kill();
    ::close(in_);
    ::close(out_);
  }

  static constexpr int kThrew = 99;

  Line line() const { return Line(in_, out_); }
  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  /// AddressSanitizer's allocator has locks that a fork may leave taken in the child for good, and ThreadSanitizer lets
  /// a child of a process with other threads start none. Threads of the library's that have nothing more to do end
  /// soon; nothing else tells when they have. ThreadSanitizer has a thread of its own, which stays.
  static void wait_for_threads_that_end() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const auto threads = [] {
      const std::filesystem::directory_iterator all("/proc/self/task");
      return std::distance(begin(all), end(all));
    };
    for (int i = 0; i < 100 && threads() > 1; ++i) ::usleep(2000);
#endif
  }
  static int run(const std::function<int(const Line&)>& body, const Line& line) {
    try {
      return body(line);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      return kThrew;
    }
  }

  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
};

}  // namespace crossdock::testing
