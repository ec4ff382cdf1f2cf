// What the machine itself needs to tell another process something, with none of our code: the part of a batch's one-way
// latency that nobody can take away. Two processes play ping-pong, half a round trip each: `--wait spin` with a number
// in a cache line of shared memory, `--wait block` with a byte over a Unix socket, asleep in poll() until it comes.
// Prints a line of JSON.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>

#include "arguments.h"
#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::bench {
namespace {

void check(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

// The two ends of one game: each says a number, and waits for the other's.
class Lines {
 public:
  Lines() {
    void* const memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    memory_ = new (memory) Memory;
  }
  void say(int from, std::uint32_t number) noexcept { memory_->said[from].number.store(number); }
  void hear(int from, std::uint32_t number) noexcept {
    while (memory_->said[from].number.load() != number) {
    }
  }

 private:
  struct alignas(128) Line {
    std::atomic<std::uint32_t> number{0};
  };
  struct Memory {
    Line said[2];
  };
  Memory* memory_ = nullptr;
};

class Sockets {
 public:
  Sockets() { check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0, "socketpair"); }
  void say(int from, std::uint32_t number) {
    const auto byte = static_cast<char>(number);
    check(::send(ends_[from], &byte, 1, MSG_NOSIGNAL) == 1, "send");
  }
  void hear(int from, std::uint32_t number) {
    pollfd end{ends_[1 - from], POLLIN, 0};
    check(::poll(&end, 1, -1) == 1, "poll");
    char byte = 0;
    check(::recv(end.fd, &byte, 1, 0) == 1 && byte == static_cast<char>(number), "recv");
  }

 private:
  int ends_[2];
};

template <typename Ends>
void play(std::int64_t rounds) {
  Ends ends;
  const pid_t other = ::fork();
  check(other >= 0, "fork");
  if (other == 0) {
    try {
      for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(rounds); ++i) {
        ends.hear(0, i);
        ends.say(1, i);
      }
    } catch (const std::exception&) {
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  Samples samples(static_cast<std::size_t>(rounds));
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(rounds); ++i) {
    const std::int64_t start = now_ns();
    ends.say(0, i);
    ends.hear(1, i);
    samples.add((now_ns() - start) / 2);
  }
  int status = 0;
  check(::waitpid(other, &status, 0) == other && status == 0, "the other process");
  std::printf("{%s}\n", samples.json("one_way").c_str());
}

void measure(const Arguments& arguments) {
  const std::int64_t rounds = arguments.number("batches", 20'000);
  switch (arguments.wait("wait")) {
    case transport::WaitMode::kSpin: return play<Lines>(rounds);
    case transport::WaitMode::kBlock: return play<Sockets>(rounds);
    case transport::WaitMode::kAuto: throw InvalidArgumentError("--wait is spin or block");
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv, {"wait", "batches"}, crossdock::bench::measure);
}
