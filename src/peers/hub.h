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
  bool paused = false;  ///< The hub accepts nobody, because kMostReady peers wait to be accepted.
  /// Each connection of this listener that is open has a share of it.
  const std::shared_ptr<const void> place = std::make_shared<char>();

  /// The most peers that wait to be accepted before later ones wait in the system's queue.
  static constexpr std::size_t kMostReady = 128;
  /// Returns true, and sets `paused`, if so many wait. try_accept() has the hub go on.
  bool pause_if_full() noexcept;
  bool is_closed();
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
  /// Accepts peers again after PeerListener::Impl::pause_if_full(), without waiting for that.
  void go_on_accepting(std::shared_ptr<PeerListener::Impl> queue) noexcept;

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
  void set_accepting(const PeerListener::Impl& queue, bool on) noexcept;
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
  std::int64_t now_ = 0;      // ns
  std::int64_t polled_ = 0;   // ns
  std::int64_t checked_ = 0;  // ns: check_deadlines()
};

}  // namespace crossdock::peers
