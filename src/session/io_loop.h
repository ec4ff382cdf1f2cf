#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "session/catalog.h"
#include "session/file_leases.h"
#include "session/server_connection.h"
#include "session/waker.h"

namespace crossdock::session {

/// Throws UriError, SchemeError, and the errors of Transport::check_address() for URIs that a server can't listen at.
void check_uris(const std::vector<std::string>& uris, const transport::TransportRegistry& transports);

/// The I/O thread of a server: accepts clients, gives each connection its turn, and sleeps when there is nothing to do.
///
/// A connection is awake or asleep. A connection that is awake gets a turn in each round in which it may make progress.
/// A connection that had nothing to do for a while is put to sleep, and costs nothing until its descriptor, its
/// deadline or its source wakes it. Descriptors of connections and listeners are registered once, in one epoll
/// instance. The loop polls that at least every kPollInterval, however busy it is.
class IoLoop {
 public:
  /// Listens before it returns, at URIs that check_uris() has seen. `flight`: one more listener, which isn't of uris();
  /// or null.
  IoLoop(const ServerOptions& options, const transport::TransportRegistry& transports, Catalog& catalog,
         std::unique_ptr<transport::Listener> flight);
  ~IoLoop();

  const std::vector<std::string>& uris() const noexcept { return uris_; }
  const std::vector<std::string>& locations() const noexcept { return locations_; }
  /// Whether location() has an answer for some regions.
  bool offers_reads() const noexcept;
  /// Returns a location URI by which clients strictly as specified read the region. Throws UnsupportedError,
  /// ClosedError.
  std::string location(const std::shared_ptr<const device::Region>& region);
  /// Collects the statistics, with those of the catalog, on the I/O thread, so that the hot path of that thread needs
  /// no lock.
  ServerStats stats();
  /// Takes read leases on the table's files where the system grants them. Waits for the I/O thread. Best effort, and
  /// never throws: without a lease, the file's size and times are compared instead.
  void watch(const std::vector<std::shared_ptr<const PublishedTable>>& tables) noexcept;
  /// Waits until no stream is under way and the consumers have taken what was sent, for `timeout_ms` at most; negative:
  /// without limit. Returns false if some stream is left. The catalog must refuse requests already. Throws
  /// InterruptedError, ClosedError.
  bool drain(int timeout_ms, const transport::InterruptHook& interrupted);
  /// Ends all connections, stops listening, and joins the thread. Idempotent, thread-safe.
  void close();

 private:
  /// A connection and its state in the loop.
  struct Member {
    Member(std::unique_ptr<transport::Connection> connection, std::shared_ptr<Consumer> consumer, IoLoop& loop)
        : waker(std::make_shared<ConnectionWaker>(loop.catalog_.waker(), this)),
          server_end(std::move(connection), loop.options_, std::move(consumer),
                     [this, &loop](const dissociated::Request& request, const transport::Connection& asking,
                                   const std::shared_ptr<const CountedStream>& counted) {
                       return loop.open(request, asking, counted, waker);
                     }) {}
    ~Member() { waker->detach(); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    const std::shared_ptr<ConnectionWaker> waker;  // shared with its sources
    ServerConnection server_end;
    std::list<Member>::iterator self{};
    std::uint64_t number = 0;      // of all connections since the start
    std::size_t place = kAsleep;   // index in awake_
    bool finished = false;         // of drain(): nothing of a stream is under way
    bool ready = false;            // gets a turn in the next round, whatever its connection reports
    std::int64_t deadline_ms = 0;  // the entry in deadlines_; 0: none
    std::int64_t last_busy = 0;    // in ns, like now_
  };
  static constexpr std::size_t kAsleep = std::numeric_limits<std::size_t>::max();

  void run() noexcept;
  void watch_descriptor(int descriptor, std::uint64_t data);
  bool round();
  bool take_turn(Member& member);
  void end(Member& member, const Error& reason);
  void note_deadline(Member& member);
  void remove(Member& member);
  void wake(Member& member);
  void wake_for_sources();
  void wake_for_deadlines();
  bool put_to_sleep(Member& member) noexcept;
  void put_idle_to_sleep() noexcept;
  void leave_awake(Member& member) noexcept;
  void check_clock();
  void poll_events(int timeout_ms);
  bool full() const noexcept;
  void accept_from(transport::Listener& listener);
  void add(std::unique_ptr<transport::Connection> connection);
  void sleep(std::uint64_t seen);
  std::unique_ptr<ServerStream> open(const dissociated::Request& request, const transport::Connection& asking,
                                     const std::shared_ptr<const CountedStream>& counted,
                                     const std::shared_ptr<ConnectionWaker>& waker);
  std::unique_ptr<ServerStream> open_statistics(const transport::Connection& asking);
  void end_disconnected();
  ServerStats collect_stats();
  void run_commands();
  void check_drained() noexcept;
  template <typename Command>
  auto ask(Command command);

  const ServerOptions& options_;
  Catalog& catalog_;
  const ClosedError closed_{"the server was closed"};  // made in advance: closing must not need memory
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<std::string> uris_;
  std::vector<std::string> locations_;  // the same, with want_data and free_data
  std::vector<bool> offers_reads_;      // by listener: whether Listener::offer() is for it
  const UniqueFd poll_;
  std::optional<FileLeases> leases_;  // made on the I/O thread, which receives the signals of lease breaks
  std::list<Member> members_;
  std::vector<Member*> awake_;                            // has capacity for all members
  std::set<std::pair<std::int64_t, Member*>> deadlines_;  // in ms, like now_ms_
  std::int64_t now_ms_ = 0;                               // of the round; coarse
  std::int64_t now_ = 0;                                  // ns: when the clock was last read
  std::int64_t polled_ = 0;                               // ns
  std::uint64_t work_ = 0;                                // since the clock was read, in about ns
  const std::int64_t started_;                            // ns
  std::vector<std::promise<bool>> drains_;                // one for each drain() that waits
  std::uint64_t n_connections_ = 0;
  std::uint64_t n_protocol_errors_ = 0;
  StreamTotals totals_;  // of connections that have ended
  // The last answer to a request for statistics, which others get that come soon after.
  std::shared_ptr<const std::vector<std::byte>> statistics_;
  std::int64_t statistics_until_ = 0;  // ns

  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  bool closing_ = false;
  std::mutex close_mutex_;
  std::thread thread_;
};

}  // namespace crossdock::session
