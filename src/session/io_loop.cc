#include "session/io_loop.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <random>
#include <system_error>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/dissociated/uri.h"
#include "session/say.h"

namespace crossdock::session {
namespace {

using Clock = std::chrono::steady_clock;

// How long the thread looks for work before it sleeps, in Wait::kAuto: about what a sleep and a wake-up cost.
constexpr std::chrono::microseconds kSpin{50};
// Even a spinning thread must see new clients and dead ones: those show up on descriptors only.
constexpr std::chrono::microseconds kLookAround{1000};

// Coarse, to some milliseconds, and nearly free: asked in every round, and good enough for deadlines of seconds.
std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

// How long the thread sleeps where it can't be woken.
constexpr int kBlindMs = 5;

// New clients that are taken before those who are here get their turn.
constexpr int kAcceptsPerTurn = 16;

// Tags need not be secret, but two servers' tags should differ, so that a location of one isn't taken for another's.
std::uint64_t random_tag() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32) | source();
}

}  // namespace

IoLoop::IoLoop(const ServerOptions& options, const transport::TransportRegistry& transports, Shelf& shelf)
    : options_(options), shelf_(shelf) {
  for (const std::string& text : options.uris) {
    const dissociated::Uri uri = dissociated::parse_uri(text);
    const auto& transport = transports.find(uri.scheme);
    if (uri.role != dissociated::StreamRole::kBoth) {
      throw UriError("\"" + text + "\" names one of two connections; a server takes every kind: leave stream= out");
    }
    const std::uint64_t want = uri.want_data.value_or(random_tag());
    std::uint64_t release = uri.free_data.value_or(random_tag());
    if (!uri.free_data && release == want) ++release;
    if (release == want) throw UriError("want_data and free_data must differ in \"" + text + "\"");
    listeners_.push_back(transport->listen(uri.address, want, release, options.log));
    uris_.push_back(listeners_.back()->uri());
    locations_.push_back(uris_.back() + "?want_data=" + std::to_string(want) + "&free_data=" + std::to_string(release));
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw ResourceError(std::string("the server can't have a thread of its own: ") + error.what() +
                        "; the limits that count are ulimit -u, ulimit -v and the number of mappings "
                        "(vm.max_map_count)");
  }
}

IoLoop::~IoLoop() {
  if (thread_.joinable()) close();
}

bool IoLoop::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return false;
    commands_.push_back(std::move(command));
  }
  shelf_.waker()->notify();
  return true;
}

void IoLoop::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (auto& command : commands) command();
}

ServerStats IoLoop::stats() {
  std::promise<ServerStats> answer;
  std::future<ServerStats> future = answer.get_future();
  const bool posted = post([&] {
    try {
      answer.set_value(collect_stats());
    } catch (...) {
      answer.set_exception(std::current_exception());
    }
  });
  if (!posted) throw ClosedError("the server was closed; it has no statistics any more");
  return future.get();
}

ServerStats IoLoop::collect_stats() {
  ServerStats stats;
  stats.connections = n_connections_;
  stats.protocol_errors = n_protocol_errors_;
  for (auto& connection : connections_) {
    try {
      stats.consumers.push_back(connection->stats(now_ms()));
    } catch (const Error&) {
      // Its peer has just gone; the next turn ends it.
    }
  }
  return stats;
}

void IoLoop::watch(const std::shared_ptr<const PublishedTable>& table) noexcept {
  try {
    std::promise<void> done;
    std::future<void> future = done.get_future();
    const bool posted = post([&] {
      try {
        leases_->watch(table);
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
    if (posted) future.get();
  } catch (const std::exception& reason) {
    say(options_.log, LogLevel::kWarning,
        [&] { return std::string("a published file is served without a read lease: ") + reason.what(); });
  }
}

void IoLoop::close() {
  const std::lock_guard one_at_a_time(close_mutex_);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  shelf_.waker()->notify();
  if (thread_.joinable()) thread_.join();
}

void IoLoop::run() noexcept {
  leases_.emplace();
  Clock::time_point idle_since{};  // none: the last round had work
  Clock::time_point looked_around = Clock::now();
  std::uint64_t seen = shelf_.waker()->seen() - 1;
  for (unsigned round = 0;; ++round) {
    const std::uint64_t events = shelf_.waker()->seen();
    if (events != seen) {
      seen = events;
      run_commands();
      const std::lock_guard lock(mutex_);
      if (closing_) break;
    }
    const bool progress = turn();
    if (progress) idle_since = {};
    if (progress && round % 256 != 0) continue;  // the clock is for rounds that have time

    const Clock::time_point now = Clock::now();
    if (now - looked_around > kLookAround) {
      looked_around = now;
      if (accept_new()) continue;
    }
    if (progress) continue;
    leases_->look();  // what just came home may have been the last of a file that somebody waits for
    if (idle_since == Clock::time_point{}) idle_since = now;
    const bool spin = options_.wait == transport::Wait::kSpin ||
                      (options_.wait == transport::Wait::kAuto && now - idle_since < kSpin);
    if (spin && !connections_.empty()) continue;
    if (!shelf_.waker()->prepare_sleep(seen)) continue;
    sleep();
    shelf_.waker()->woke();
    looked_around = Clock::now();
    idle_since = {};
    leases_->look();
    accept_new();
  }
  run_commands();  // answers what was asked before the end
  for (auto& connection : connections_) connection->say_goodbye(closed_);
  connections_.clear();
  leases_.reset();
  listeners_.clear();
}

bool IoLoop::turn() {
  bool progress = false;
  const std::int64_t now = now_ms();
  for (std::size_t i = 0; i < connections_.size();) {
    try {
      progress |= connections_[i]->turn(now);
      ++i;
      continue;
    } catch (const Error& reason) {
      const bool hostile = reason.code() == ErrorCode::kProtocol || reason.code() == ErrorCode::kInvalidData;
      n_protocol_errors_ += hostile;
      say(options_.log, hostile ? LogLevel::kWarning : LogLevel::kInfo, [&] {
        return std::string("a connection ends: ") + std::string(error_name(reason.code())) + ": " + reason.what();
      });
      connections_[i]->say_goodbye(reason);
    } catch (const std::exception& reason) {
      say(options_.log, LogLevel::kError, [&] { return std::string("a connection ends: ") + reason.what(); });
      connections_[i]->say_goodbye(reason);
    }
    connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    progress = true;
  }
  return progress;
}

bool IoLoop::full() const noexcept {
  return options_.max_connections != 0 &&
         connections_.size() + shelf_.sources_left_behind() >= options_.max_connections;
}

bool IoLoop::accept_new() {
  bool progress = full() && turn();  // who has just left makes room
  for (const auto& listener : listeners_) progress |= accept_at(*listener);
  return progress;
}

bool IoLoop::accept_at(transport::Listener& listener) {
  bool progress = false;
  try {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      listener.turn_away(full());
      std::unique_ptr<transport::Connection> connection = listener.accept();
      if (!connection) break;
      ++n_connections_;
      progress = true;
      std::shared_ptr<Consumer> consumer = shelf_.consumer_of(connection->agreement());
      connections_.push_back(
          std::make_unique<ServerConnection>(std::move(connection), options_, std::move(consumer),
                                             [this](std::string_view ticket, const transport::Connection& asking,
                                                    const std::shared_ptr<const CountedStream>& counted) {
                                               return shelf_.open(ticket, asking, counted);
                                             }));
    }
  } catch (const std::exception& reason) {
    say(options_.log, LogLevel::kError,
        [&] { return std::string("a client could not be accepted: ") + reason.what(); });
  }
  return progress;
}

std::int64_t IoLoop::next_deadline_ms() const {
  std::int64_t next = 0;
  for (const auto& connection : connections_) {
    const std::int64_t deadline = connection->deadline_ms();
    if (deadline != 0 && (next == 0 || deadline < next)) next = deadline;
  }
  return next;
}

void IoLoop::sleep() noexcept {
  std::vector<pollfd> fds;
  std::size_t asleep = 0;
  int timeout = -1;  // ms
  bool go = true;
  try {
    fds.push_back({shelf_.waker()->descriptor(), POLLIN, 0});
    fds.push_back({leases_->descriptor(), POLLIN, 0});  // -1, where there are none, is passed over
    for (const auto& listener : listeners_) {
      const std::vector<int> knocks = listener->poll_descriptors();
      for (const int fd : knocks) fds.push_back({fd, POLLIN, 0});
      // Handshakes under way have deadlines that only accept() knows, and so has a listener that can't accept now.
      if (knocks.size() > 1 || knocks.front() < 0) timeout = 500;
    }
    for (; go && asleep < connections_.size(); ++asleep) {
      transport::Connection& connection = connections_[asleep]->connection();
      fds.push_back({connection.descriptor(), POLLIN, 0});
      go = connection.prepare_sleep();
    }
  } catch (const std::exception&) {
    go = false;  // a peer has gone: its next turn says so; or there is no memory
  }
  if (go) {
    const std::int64_t deadline = next_deadline_ms();
    if (deadline != 0) {
      const auto left = static_cast<int>(std::clamp<std::int64_t>(deadline - now_ms(), 0, 60'000));
      timeout = timeout < 0 ? left : std::min(timeout, left);
    }
    if (::poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) {
      // No memory, or more descriptors than the process may have open (a limit that was lowered): look again soon.
      ::poll(nullptr, 0, kBlindMs);
    }
  }
  for (std::size_t i = 0; i < asleep; ++i) connections_[i]->connection().wake();
}

}  // namespace crossdock::session
