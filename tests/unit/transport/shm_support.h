#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "support/leftovers.h"
#include "support/process.h"
#include "transport/shm.h"
#include "transport/shm/ring.h"
#include "transport/shm/ring_memory.h"
#include "transport/transport.h"

/// Helpers of the shm transport's tests.
namespace crossdock::transport::shm_test {

using namespace std::chrono_literals;

/// The number of the user "nobody", and of its group.
inline constexpr std::uint32_t kNobody = 65534;

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline std::int64_t in_ms(int milliseconds) { return now_ns() + std::int64_t{milliseconds} * 1'000'000; }

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  unsigned state = seed * 2654435761U + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

inline std::vector<std::byte> copy_of(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

/// Counts what a ring asks for.
class CountingOwner : public shm::RingOwner {
 public:
  void ring() noexcept override { ++rings; }
  void retired(std::uint64_t number) override { retirements.push_back(number); }
  int rings = 0;
  std::vector<std::uint64_t> retirements;
};

/// What a reader under test takes: messages and bodies of the same size.
inline shm::ReadLimits limits(std::uint64_t bytes) { return {bytes, bytes, make_body_pool()}; }

/// Both ends' memory, mapped once: what a sanitizer can see.
struct RingMemories {
  explicit RingMemories(std::uint64_t size) : bytes(size), a_data(new std::byte[size]), b_data(new std::byte[size]) {}
  shm::RingView of_a() { return {&a, &b, a_data.get(), bytes, b_data.get(), bytes}; }
  shm::RingView of_b() { return {&b, &a, b_data.get(), bytes, a_data.get(), bytes}; }
  std::uint64_t bytes;
  shm::RingHeader a;
  shm::RingHeader b;
  std::unique_ptr<std::byte[]> a_data;
  std::unique_ptr<std::byte[]> b_data;
};

/// A folder that goes with everything in it. Checks that nothing is left in it but what the test put there.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/crossdock-test-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryFolder() {
    for (const std::string& entry : entries()) ::unlink((path_ + "/" + entry).c_str());
    ::rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    DIR* folder = ::opendir(path_.c_str());
    if (folder == nullptr) return names;
    while (const dirent* entry = ::readdir(folder)) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) names.push_back(entry->d_name);
    }
    ::closedir(folder);
    return names;
  }

 private:
  std::string path_;
};

using testing::open_descriptors;

/// A forked child for which it is enough that `run` returns.
class Child : public testing::ChildProcess {
 public:
  explicit Child(const std::function<void()>& run)
      : ChildProcess([&run](const Line&) {
          run();
          return 0;
        }) {}
};

inline void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

/// What a log callback was told.
struct Log {
  LogCallback callback() {
    return [this](LogLevel, std::string_view text) { lines.emplace_back(text); };
  }
  bool says(const std::string& part) const {
    for (const std::string& line : lines) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<std::string> lines;
};

/// One end's memory, whole.
inline shm::RingMemory make_ring(shm::RingMaker::End end, std::uint64_t ring_bytes, UniqueFd* fd) {
  shm::RingMaker maker(end, ring_bytes);
  while (!maker.step()) {
  }
  return maker.take(fd);
}

/// Waits until the listener has a connection; null after `timeout_ms`.
inline std::unique_ptr<Connection> accept_one(Listener& listener, int timeout_ms = 5000) {
  const std::int64_t deadline = in_ms(timeout_ms);
  for (;;) {
    if (auto connection = listener.accept()) return connection;
    const std::int64_t left = (deadline - now_ns()) / 1'000'000;
    if (left <= 0) return nullptr;
    pollfd ask{listener.descriptor(), POLLIN, 0};
    ::poll(&ask, 1, static_cast<int>(left));
  }
}

inline std::vector<std::byte> receive_or_throw(Connection& connection, WaitMode mode = WaitMode::kAuto,
                                               int timeout_ms = 10000) {
  const std::int64_t deadline = in_ms(timeout_ms);
  for (;;) {
    if (const auto message = connection.receive()) return copy_of(message->bytes);
    if (!wait_readable(connection, mode, deadline, nullptr)) throw TimeoutError("no message came");
  }
}

inline void send_or_throw(Connection& connection, ByteSpan bytes, WaitMode mode = WaitMode::kAuto,
                          int timeout_ms = 10000) {
  const std::int64_t deadline = in_ms(timeout_ms);
  while (!connection.send(bytes, {})) {
    if (!wait_readable(connection, mode, deadline, nullptr)) throw TimeoutError("no room came");
  }
}

/// The mapped region that the peer announced under this number.
inline std::shared_ptr<const device::Region> region_of(Connection& end, std::uint16_t number, int timeout_ms,
                                                       const InterruptHook& interrupted = nullptr) {
  return end.peer_region(device::make_address(number, 64), timeout_ms, interrupted)->mapped;
}

/// A server and a client in this process. The client's connect() needs the server's accept(), so a thread does one of
/// them: see connected_pair().
struct Pair {
  std::unique_ptr<Connection> server;
  std::unique_ptr<Connection> client;
};

Pair connected_pair(const ShmOptions& server = {}, const ShmOptions& client = {}, const ConnectOptions& wishes = {});

/// Sends one packet with these descriptors, up to 64.
void send_descriptors(int socket, ByteSpan bytes, const std::vector<int>& descriptors);

/// The number of descriptors, once those that were refused are closed: a thread of the library's does that.
int descriptors_when_closed();

/// A client's socket without a client: sends what it likes.
class RawSocket {
 public:
  explicit RawSocket(const std::string& path);
  void send(ByteSpan bytes, const std::vector<int>& descriptors = {}) const {
    send_descriptors(fd_.get(), bytes, descriptors);
  }
  /// The next packet's bytes, waiting up to 5 s; empty at the end.
  std::vector<std::byte> receive() const;
  int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// A listening socket at this path, for a server that a test drives by hand.
UniqueFd listening_socket(const std::string& path);

/// The path in a listener's URI. Only for paths without characters that a URI encodes.
inline std::string path_of(const Listener& listener) { return listener.uri().substr(4); }

inline unsigned mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

}  // namespace crossdock::transport::shm_test
