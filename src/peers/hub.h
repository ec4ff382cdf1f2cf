#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/fork.h"
#include "core/unique_fd.h"
#include "crossdock/peers/peer.h"
#include "peers/copy_threads.h"
#include "peers/link.h"
#include "session/waker.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::peers {

/// Peers that have connected to a listener and weren't accepted yet. Shared by the listener and the hub. Thread-safe.
struct PeerListener::Impl {
  const ForkGuard fork{};
  std::vector<std::string> uris{};
  std::weak_ptr<Hub::Impl> hub{};
  std::mutex mutex{};
  std::deque<std::shared_ptr<Link>> ready{};
  Notify notify{};
  bool closed = false;

  /// Returns false if nobody accepts peers any more.
  bool add(const std::shared_ptr<Link>& link);
  /// Aborts the peers that weren't accepted.
  void close() noexcept;
};

/// The I/O thread of a hub, and what it serves.
struct Hub::Impl : std::enable_shared_from_this<Hub::Impl> {
 public:
  explicit Impl(const HubOptions& options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
  /// Ends everything, and joins the threads.
  void stop() noexcept;

  std::shared_ptr<PeerListener::Impl> listen(const std::vector<std::string>& uris, PeerOptions options);
  std::shared_ptr<Link> connect(const std::string& uri, PeerOptions options,
                                const transport::InterruptHook& interrupted);
  /// Stops listening, without waiting for that.
  void stop_listening(std::shared_ptr<PeerListener::Impl> queue) noexcept;

  const ForkGuard fork{};

 private:
  struct Listening {
    std::unique_ptr<transport::Listener> listener;
    PeerOptions options;
    std::shared_ptr<PeerListener::Impl> queue;
  };

  void start();
  void command(std::function<void()> call);
  void run_commands();

  void run() noexcept;
  bool round();
  bool turn(Link& link);
  void add(const std::shared_ptr<Link>& link);
  void remove(Link& link) noexcept;
  void wake(Link& link);
  void leave_awake(Link& link) noexcept;
  bool put_to_sleep(Link& link) noexcept;
  void poll_events(int timeout_ms);
  void sleep(std::uint64_t seen);
  void accept_from(Listening& listening);
  void check_deadlines();
  void watch(int descriptor, void* what);

  const LogCallback log_;
  const std::shared_ptr<CopyThreads> copies_;
  const std::shared_ptr<LinkServices> services_;
  const UniqueFd poll_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  bool closing_ = false;

  // Of the I/O thread:
  std::unordered_map<Link*, std::shared_ptr<Link>> links_;
  std::list<Listening> listeners_;
  std::vector<Link*> awake_;
  std::int64_t now_ = 0;     // ns
  std::int64_t polled_ = 0;  // ns
};

}  // namespace crossdock::peers
