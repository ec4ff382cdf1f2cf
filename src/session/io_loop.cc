#include "session/io_loop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <system_error>

#include "core/base64.h"
#include "core/clock.h"
#include "core/text.h"
#include "crossdock/version.h"
#include "dissociated/uri.h"
#include "session/say.h"
#include "session/statistics_stream.h"
#include "session/statistics_text.h"
#include "session/table_name.h"
#include "transport/registry.h"

namespace crossdock::session {
namespace {

// How long the thread polls for work before it sleeps, in WaitMode::kAuto: about the cost of a sleep and a wake-up. In
// ns, like the other times here.
constexpr std::int64_t kSpin = 50'000;
// The same in WaitMode::kBlock. Preparing for sleep stalls other processors for longer than this, and is useless while
// clients receive one message after the other.
constexpr std::int64_t kBriefSpin = 5'000;
// The interval at which epoll is asked, however busy the thread is. It reports new clients, clients that disconnected,
// and connections that sleep.
constexpr std::int64_t kPollInterval = 250'000;
// The amount of work after which the clock is read, in about ns.
constexpr std::uint64_t kWorkPerReading = 20'000;
constexpr std::uint64_t kPerTurn = 100;
// How long a connection may have nothing to do, while others are busy, before it is put to sleep. Where memory is
// shared, checking it costs almost nothing, and waking it costs its peer a system call. Otherwise each check is a
// system call.
constexpr std::int64_t kIdleBeforeSleep = 1'000'000;
constexpr std::int64_t kIdleBeforeSleepWithCalls = 100'000;
// Time for accepting new clients before the existing connections continue. Together with the last step of accept(), it
// is some 300 us.
constexpr std::int64_t kAcceptTime = 200'000;

// How often flush() is called for each connection when the server closes and nothing else waits.
constexpr int kMaxLastFlushes = 64;

// The longest answer to a request for statistics, in bytes. It takes some 0.5 ms to make.
constexpr std::size_t kRoomForStatistics = 256 << 10;
// An answer is used again for so many times the time that it took to make it. So requests for statistics take at most
// a twentieth of the thread's time, however many there are.
constexpr std::int64_t kStatisticsPause = 19;

// How long the thread sleeps when epoll fails and so can't wake it.
constexpr int kBlindMs = 5;
constexpr int kLongestSleepMs = 60'000;

constexpr std::int64_t kNsPerMs = 1'000'000;
// The interval at which drain() asks whether it was interrupted.
constexpr std::int64_t kDrainInterval = 50 * kNsPerMs;

// Data of epoll events, in addition to addresses of Members.
constexpr std::uint64_t kWakerEvent = 0;
constexpr std::uint64_t kLeasesEvent = 1;
constexpr std::uint64_t kFirstListener = 2;
constexpr std::size_t kEventsAtOnce = 256;
// Files that get read leases before connections have their turn again: some 200 us.
constexpr std::size_t kWatchedAtOnce = 64;

// Precise only to some milliseconds, but nearly free. It is read in every round, and precise enough for deadlines.
std::int64_t now_ms() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

bool is_readable(int descriptor) noexcept {
  pollfd ask{descriptor, POLLIN, 0};
  return ::poll(&ask, 1, 0) > 0;
}

// Tags need not be secret. But different servers should have different tags, so that a location of one server isn't
// used with another.
std::uint64_t random_tag() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32) | source();
}

}  // namespace

void check_uris(const std::vector<std::string>& uris, const transport::TransportRegistry& transports) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const std::string& text : uris) {
    const dissociated::Uri uri = dissociated::parse_uri(text);
    const auto& transport = transports.find(uri.scheme);
    if (uri.role != ChannelRole::kBoth) {
      throw UriError("\"" + excerpt(text) +
                     "\" is for one of two connections, but a server accepts both: leave stream= out");
    }
    if (uri.want_data && uri.want_data == uri.free_data) {
      throw UriError("want_data and free_data must differ in \"" + excerpt(text) + "\"");
    }
    transport->check_address(uri.address);
    const bool picked = uri.address.empty() || uri.address.ends_with(":0");  // another one each time
    if (!seen.emplace(uri.scheme, uri.address).second && !picked) {
      throw UriError("\"" + excerpt(text) + "\" is given twice: a server listens once at an address");
    }
  }
}

IoLoop::IoLoop(const ServerOptions& options, const transport::TransportRegistry& transports, Catalog& catalog,
               std::unique_ptr<transport::Listener> flight)
    : options_(options), catalog_(catalog), poll_(::epoll_create1(EPOLL_CLOEXEC)), started_(now_ns()) {
  if (!poll_) throw_errno(errno, "making a descriptor for the server to wait on");
  watch_descriptor(catalog_.waker()->descriptor(), kWakerEvent);
  for (const std::string& text : options.uris) {
    const dissociated::Uri uri = dissociated::parse_uri(text);
    const auto& transport = transports.find(uri.scheme);
    std::uint64_t want = uri.want_data.value_or(random_tag());
    std::uint64_t release = uri.free_data.value_or(random_tag());
    if (want == release) ++(uri.free_data ? want : release);
    listeners_.push_back(transport->listen(uri.address, want, release, options.log));
    uris_.push_back(listeners_.back()->uri());
    locations_.push_back(uris_.back() + "?want_data=" + std::to_string(want) + "&free_data=" + std::to_string(release) +
                         (transport->reaches_specified_peers() ? "&crossdock=1" : ""));
    offers_reads_.push_back(transport->reaches_specified_peers());
  }
  if (flight) listeners_.push_back(std::move(flight));
  for (std::size_t i = 0; i < listeners_.size(); ++i) watch_descriptor(listeners_[i]->descriptor(), kFirstListener + i);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw ResourceError(std::string("the server can't have a thread of its own: ") + error.what() +
                        "; check the limits: ulimit -u, ulimit -v and the number of mappings (vm.max_map_count)");
  }
}

IoLoop::~IoLoop() {
  if (thread_.joinable()) close();
}

// Runs a command on the I/O thread. Returns its result, or throws its error; throws ClosedError after close().
template <typename Command>
auto IoLoop::ask(Command command) {
  const auto task = std::make_shared<std::packaged_task<decltype(command())()>>(std::move(command));
  auto answer = task->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (closing_) throw ClosedError("the server was closed");
    commands_.emplace_back([task] { (*task)(); });
  }
  catalog_.waker()->notify();
  return answer.get();
}

bool IoLoop::offers_reads() const noexcept { return std::ranges::find(offers_reads_, true) != offers_reads_.end(); }

std::string IoLoop::location(const std::shared_ptr<const device::Region>& region) {
  return ask([&] {
    const auto reads = std::ranges::find(offers_reads_, true);
    const std::size_t which =
        reads == offers_reads_.end() ? 0 : static_cast<std::size_t>(reads - offers_reads_.begin());
    const transport::SpecifiedServer offered = listeners_[which]->offer(region);
    return uris_[which] + "?want_data=" + std::to_string(offered.want_data) +
           "&free_data=" + std::to_string(*offered.free_data) + "&remote_handle=" + to_base64(offered.remote_handle);
  });
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
  return ask([this] {
    end_disconnected();
    return collect_stats();
  });
}

// What isn't among the consumers of stats() doesn't count in max_connections either.
void IoLoop::end_disconnected() {
  for (auto at = members_.begin(); at != members_.end();) {
    Member& member = *at++;
    try {
      member.server_end.connection().in_flight();
    } catch (const Error& reason) {
      end(member, reason);
    }
  }
}

ServerStats IoLoop::collect_stats() {
  ServerStats stats;
  stats.version = version();
  stats.pid = static_cast<std::uint32_t>(::getpid());
  stats.uptime = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds(now_ns() - started_));
  stats.uris = uris_;
  stats.totals = totals_;
  for (Member& member : members_) {
    member.server_end.add_totals(&stats.totals);
    try {
      stats.consumers.push_back(member.server_end.stats(now_ms()));
    } catch (const Error&) {
      wake(member);  // the peer has just disconnected: the next turn ends the connection
      continue;
    }
    ConsumerStats& consumer = stats.consumers.back();
    consumer.id = member.number;
    stats.leases += consumer.leases;
    stats.leased_bytes += consumer.leased_bytes;
    stats.oldest_lease = std::max(stats.oldest_lease, consumer.oldest_lease);  // none is the least
  }
  stats.accepted_connections = n_connections_;
  stats.connections = stats.consumers.size();
  stats.protocol_errors = n_protocol_errors_;
  transport::Rejections rejections;
  for (const auto& listener : listeners_) rejections.add(listener->rejections());
  stats.rejected_connections = {{"version", rejections.version},
                                {"not_allowed", rejections.not_allowed},
                                {"malformed", rejections.malformed},
                                {"late", rejections.late},
                                {"full", rejections.full},
                                {"resources", rejections.resources},
                                {"protection", rejections.protection}};
  catalog_.add_stats(&stats);
  return stats;
}

std::unique_ptr<ServerStream> IoLoop::open(const dissociated::Request& request, const transport::Connection& asking,
                                           const std::shared_ptr<const CountedStream>& counted,
                                           const std::shared_ptr<ConnectionWaker>& waker) {
  if (request.ticket == kStatisticsTicket) return open_statistics(asking);
  return catalog_.open(request, asking, counted, waker);
}

std::unique_ptr<ServerStream> IoLoop::open_statistics(const transport::Connection& asking) {
  if (!options_.stats_for_all && !asking.agreement().privileged) {
    throw PermissionError(
        "the statistics of this server are for its own user on its machine, and for clients over networks that have "
        "proved a token or a certificate, unless it is started with stats=\"any\" (`crossdock serve --stats any`)");
  }
  const std::int64_t begun = now_ns();
  if (!statistics_ || begun >= statistics_until_) {
    const std::string text = statistics_text(collect_stats(), kRoomForStatistics);
    statistics_ = std::make_shared<const std::vector<std::byte>>(statistics_message(text));
    const std::int64_t made = now_ns();
    statistics_until_ = made + kStatisticsPause * (made - begun);
  }
  return std::make_unique<StatisticsStream>(statistics_);
}

void IoLoop::watch(const std::vector<std::shared_ptr<const PublishedTable>>& tables) noexcept {
  std::span<const std::shared_ptr<const PublishedTable>> left(tables);
  try {
    while (!left.empty()) {
      const auto some = left.first(std::min(left.size(), kWatchedAtOnce));
      left = left.subspan(some.size());
      ask([&] {
        for (const auto& table : some) leases_->watch(table);
      });
    }
  } catch (const ClosedError&) {
    // The server no longer serves the file.
  } catch (const std::exception& reason) {
    say(options_.log, LogLevel::kWarning,
        [&] { return std::string("a published file is served without a read lease: ") + reason.what(); });
  }
}

bool IoLoop::drain(int timeout_ms, const transport::InterruptHook& interrupted) {
  const std::int64_t end = timeout_ms < 0 ? std::numeric_limits<std::int64_t>::max() : now_ns() + timeout_ms * kNsPerMs;
  std::future<bool> drained = ask([this] {
    for (Member& member : members_) wake(member);
    return drains_.emplace_back().get_future();
  });
  for (;;) {
    const std::int64_t left = std::clamp<std::int64_t>(end - now_ns(), 0, kDrainInterval);
    if (drained.wait_for(std::chrono::nanoseconds(left)) == std::future_status::ready) return drained.get();
    if (left < kDrainInterval) return false;
    if (interrupted && interrupted()) throw InterruptedError("waiting for the server's streams was interrupted");
  }
}

// Tells those who wait in drain() once nothing of a stream is under way. A connection that sleeps has what it had when
// it fell asleep.
void IoLoop::check_drained() noexcept {
  if (drains_.empty()) return;
  bool all_finished = true;
  for (auto at = members_.begin(); at != members_.end();) {
    Member& member = *at++;
    try {
      if (member.place != kAsleep) member.finished = member.server_end.finished();
      all_finished &= member.finished;
    } catch (const Error& reason) {  // the peer has just disconnected
      end(member, reason);
    }
  }
  if (!all_finished) return;
  for (std::promise<bool>& drain : drains_) drain.set_value(true);
  drains_.clear();
}

void IoLoop::close() {
  const std::lock_guard one_at_a_time(close_mutex_);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  catalog_.waker()->notify();
  if (thread_.joinable()) thread_.join();
}

void IoLoop::watch_descriptor(int descriptor, std::uint64_t data) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = data}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw_errno(errno, "watching a descriptor of the server");
  }
}

void IoLoop::run() noexcept {
  leases_.emplace();
  if (leases_->descriptor() >= 0) {
    try {
      watch_descriptor(leases_->descriptor(), kLeasesEvent);
    } catch (const std::exception& reason) {
      say(options_.log, LogLevel::kWarning,
          [&] { return std::string("writers of served files may be blocked for long: ") + reason.what(); });
    }
  }
  std::int64_t idle_since = 0;  // ns; 0: the last round had work
  std::uint64_t seen = catalog_.waker()->seen() - 1;
  for (;;) {
    const std::uint64_t events = catalog_.waker()->seen();
    if (events != seen) {
      seen = events;
      run_commands();
      {
        const std::lock_guard lock(mutex_);
        if (closing_) break;
      }
      wake_for_sources();
    }
    if (round()) {
      idle_since = 0;
      continue;
    }
    check_clock();
    // Frees in this round may have ended the last use of a file that another process waits to write.
    leases_->check_breaks();
    if (idle_since == 0) idle_since = now_;
    const std::int64_t idle_limit = options_.wait == transport::WaitMode::kAuto ? kSpin : kBriefSpin;
    const bool spin = options_.wait == transport::WaitMode::kSpin || now_ - idle_since < idle_limit;
    if (spin && !awake_.empty()) continue;
    sleep(seen);
    idle_since = 0;
  }
  run_commands();  // answers requests that were made before the end
  check_drained();
  for (std::promise<bool>& drain : drains_) drain.set_value(false);
  drains_.clear();
  for (Member& member : members_) member.server_end.close(closed_, kMaxLastFlushes);
  while (!members_.empty()) remove(members_.front());
  leases_.reset();
  listeners_.clear();
}

// Gives a turn to each connection that may make progress. Returns true if there was one.
bool IoLoop::round() {
  bool busy = false;
  now_ms_ = now_ms();
  wake_for_deadlines();
  for (std::size_t i = 0; i < awake_.size();) {
    Member* const member = awake_[i];
    const bool readable = !member->ready && member->server_end.connection().readable();
    if (readable) member->last_busy = now_;
    if (readable || member->ready) busy |= take_turn(*member) || readable;
    if (i < awake_.size() && awake_[i] == member) ++i;  // else it was removed, and another member is at its index
    if (work_ >= kWorkPerReading || now_ - polled_ >= kPollInterval) check_clock();
  }
  return busy;
}

// Returns true if there was any progress; `member` may have been destroyed then.
bool IoLoop::take_turn(Member& member) {
  TurnBudget budget(now_);
  try {
    const std::uint64_t seen = member.waker->seen();
    member.ready = member.server_end.turn(now_ms_, budget);
    if (member.server_end.waits_for_source()) member.ready |= !member.waker->wait(seen);
    note_deadline(member);
  } catch (const Error& reason) {
    end(member, reason);
    return true;
  } catch (const std::exception& reason) {
    say(options_.log, LogLevel::kError, [&] { return std::string("a connection ended: ") + reason.what(); });
    member.server_end.close(reason);
    remove(member);
    return true;
  }
  work_ += kPerTurn + budget.spent();
  now_ = budget.now();
  if (member.ready) member.last_busy = now_;
  return member.ready;
}

// Ends a connection, and destroys `member`.
void IoLoop::end(Member& member, const Error& reason) {
  const bool hostile = reason.code() == ErrorCode::kProtocol || reason.code() == ErrorCode::kInvalidData;
  n_protocol_errors_ += hostile;
  say(options_.log, hostile ? LogLevel::kWarning : LogLevel::kInfo, [&] {
    return std::string("a connection ended: ") + std::string(error_name(reason.code())) + ": " + reason.what();
  });
  member.server_end.close(reason);
  remove(member);
}

void IoLoop::note_deadline(Member& member) {
  const std::int64_t deadline = member.server_end.deadline_ms();
  if (deadline == member.deadline_ms) return;
  if (deadline != 0) deadlines_.emplace(deadline, &member);
  if (member.deadline_ms != 0) deadlines_.erase({member.deadline_ms, &member});
  member.deadline_ms = deadline;
}

void IoLoop::remove(Member& member) {
  // Closing the descriptor doesn't unregister it while a forked child holds a copy.
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, member.server_end.connection().descriptor(), nullptr);
  leave_awake(member);
  if (member.deadline_ms != 0) deadlines_.erase({member.deadline_ms, &member});
  member.server_end.add_totals(&totals_);
  members_.erase(member.self);
}

void IoLoop::leave_awake(Member& member) noexcept {
  if (member.place == kAsleep) return;
  awake_[member.place] = awake_.back();
  awake_[member.place]->place = member.place;
  awake_.pop_back();
  member.place = kAsleep;
}

void IoLoop::wake(Member& member) {
  member.server_end.connection().wake();
  member.ready = true;
  member.last_busy = now_;
  if (member.place != kAsleep) return;
  member.place = awake_.size();
  awake_.push_back(&member);
}

// Wakes exactly the connections whose source has something.
void IoLoop::wake_for_sources() {
  while (void* const woken = catalog_.waker()->next_woken()) wake(*static_cast<Member*>(woken));
}

void IoLoop::wake_for_deadlines() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms_) {
    Member& member = *deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    member.deadline_ms = 0;
    wake(member);
  }
}

// Returns false if the connection has something to do after all.
bool IoLoop::put_to_sleep(Member& member) noexcept {
  try {
    if (member.server_end.connection().prepare_sleep()) {
      leave_awake(member);
      return true;
    }
  } catch (const std::exception&) {
    // The peer has disconnected: the next turn detects that.
  }
  member.ready = true;
  return false;
}

// Puts connections to sleep that are awake and had nothing to do for a while.
void IoLoop::put_idle_to_sleep() noexcept {
  if (options_.wait == transport::WaitMode::kSpin) return;
  for (std::size_t i = 0; i < awake_.size();) {
    Member& member = *awake_[i];
    const std::int64_t idle_limit = member.server_end.connection().agreement().ways.has(transport::Way::kMap)
                                        ? kIdleBeforeSleep
                                        : kIdleBeforeSleepWithCalls;
    if (member.ready || now_ - member.last_busy < idle_limit || !put_to_sleep(member)) ++i;
  }
}

// Reads the clock. If kPollInterval is over, also puts idle connections to sleep, polls epoll, which may accept
// clients, and polls the file leases.
void IoLoop::check_clock() {
  work_ = 0;
  now_ = now_ns();
  if (now_ - polled_ < kPollInterval) return;
  check_drained();
  put_idle_to_sleep();
  poll_events(0);
  leases_->check_breaks();
}

// Processes the events of epoll: wakes connections, and accepts new clients.
void IoLoop::poll_events(int timeout_ms) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int got = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  if (got < 0 && errno != EINTR && timeout_ms != 0) ::poll(nullptr, 0, kBlindMs);  // for example without memory
  now_ = polled_ = now_ns();
  const std::span<const epoll_event> happened = std::span(events).first(static_cast<std::size_t>(std::max(got, 0)));
  const auto listener_of = [&](const epoll_event& event) -> transport::Listener* {
    const std::uint64_t number = event.data.u64 - kFirstListener;
    return number < listeners_.size() ? listeners_[number].get() : nullptr;
  };
  const auto member_of = [&](const epoll_event& event) -> Member* {
    if (event.data.u64 < kFirstListener + listeners_.size()) return nullptr;
    return static_cast<Member*>(event.data.ptr);
  };
  bool has_new_clients = false;
  for (const epoll_event& event : happened) {
    if (Member* const member = member_of(event)) wake(*member);
    has_new_clients |= listener_of(event) != nullptr;
  }
  if (!has_new_clients) return;
  if (full()) {  // clients that have just disconnected make room
    for (const epoll_event& event : happened) {
      if (Member* const member = member_of(event)) take_turn(*member);
    }
  }
  for (const epoll_event& event : happened) {
    if (transport::Listener* const listener = listener_of(event)) accept_from(*listener);
  }
}

bool IoLoop::full() const noexcept {
  return options_.max_connections != 0 && members_.size() + catalog_.abandoned_sources() >= options_.max_connections;
}

void IoLoop::accept_from(transport::Listener& listener) {
  try {
    const std::int64_t end = now_ns() + kAcceptTime;
    do {
      listener.reject_all(full());
      if (std::unique_ptr<transport::Connection> connection = listener.accept()) {
        add(std::move(connection));
      } else if (!is_readable(listener.descriptor())) {
        break;
      }
    } while (now_ns() < end);  // then the existing connections continue; the descriptor stays readable
  } catch (const std::exception& reason) {
    say(options_.log, LogLevel::kError,
        [&] { return std::string("a client could not be accepted: ") + reason.what(); });
  }
}

void IoLoop::add(std::unique_ptr<transport::Connection> connection) {
  ++n_connections_;
  std::shared_ptr<Consumer> consumer = catalog_.consumer_of(connection->agreement());
  Member& member = members_.emplace_back(std::move(connection), std::move(consumer), *this);
  member.self = std::prev(members_.end());
  member.number = n_connections_;
  try {
    if (awake_.capacity() < members_.size()) awake_.reserve(2 * members_.size());
    watch_descriptor(member.server_end.connection().descriptor(), reinterpret_cast<std::uintptr_t>(&member));
  } catch (...) {
    members_.pop_back();
    throw;
  }
  wake(member);
}

void IoLoop::sleep(std::uint64_t seen) {
  check_drained();
  while (!awake_.empty()) {
    if (!put_to_sleep(*awake_.back())) return;
  }
  if (!catalog_.waker()->prepare_sleep(seen)) return;
  int timeout = -1;  // ms
  if (!deadlines_.empty()) {
    timeout = static_cast<int>(std::clamp<std::int64_t>(deadlines_.begin()->first - now_ms(), 0, kLongestSleepMs));
  }
  poll_events(timeout);
  catalog_.waker()->woke();
  leases_->check_breaks();
}

}  // namespace crossdock::session
