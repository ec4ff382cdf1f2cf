#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace crossdock::testing {

/// A forked child that runs `body` and exits with what it returns; it and its parent talk in lines. Fork before there
/// are threads.
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
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(up[0]);
      ::close(down[1]);
      ::_exit(body(Line(down[0], up[1])));
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

  Line line() const { return Line(in_, out_); }
  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
};

}  // namespace crossdock::testing
