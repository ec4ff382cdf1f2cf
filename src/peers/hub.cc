#include "peers/hub.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <span>
#include <system_error>
#include <utility>

#include "core/blocked_signals.h"
#include "core/clock.h"
#include "core/milliseconds.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/say.h"

namespace crossdock::peers {
namespace {

constexpr const char* kThisHub = "this Hub of peers";
/// Two reach what memory gives on many machines, four on all.
const std::size_t kCopyThreads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 4);
/// How long the thread looks for work before it sleeps: less than a sleep and a wake-up cost. In ns, as the next two.
constexpr std::int64_t kSpin = 20'000;
/// The interval at which epoll is asked, however busy the thread is.
constexpr std::int64_t kPollInterval = 250'000;
/// How long a link may have nothing to do, while others are busy, before it is put to sleep.
constexpr std::int64_t kIdleBeforeSleep = 200'000;
constexpr int kDeadlineCheckMs = 500;
/// The shortest time from one check of all links' deadlines to the next.
constexpr std::int64_t kDeadlineCheck = 250'000'000;
/// How long new peers are accepted before the others have their turn.
constexpr std::int64_t kAcceptTime = 250'000;
/// The most regions that are taken: their numbers are 16 bits long.
constexpr std::uint64_t kMostRegionNumbers = 1 << 16;
constexpr std::size_t kEventsAtOnce = 64;

std::shared_ptr<LinkServices> make_services(const HubOptions& options, std::shared_ptr<CopyThreads> copies) {
  auto runtime = options.runtime ? options.runtime : session::Runtime::default_runtime();
  auto pool = options.pool ? options.pool : runtime->make_pool();
  const auto run = [copies = std::move(copies)](std::function<void()> task) { copies->add(std::move(task)); };
  return std::make_shared<LinkServices>(
      LinkServices{std::make_shared<session::Waker>(), run,
                   FrameSharer(std::move(runtime), std::move(pool), {.run = run, .most = kCopyThreads - 1})});
}

/// Sets the limits of the transports that follow from those of the messages.
PeerOptions with_limits(PeerOptions options) {
  options.transports.shm.max_body = options.transports.tcp.max_body = options.max_message;
  options.transports.shm.accept_files = false;
  // A peer may announce regions before it is read that it has retired as many others.
  options.transports.shm.max_regions =
      static_cast<std::uint32_t>(std::min(2 * std::uint64_t{regions_taken(options)}, kMostRegionNumbers));
  return options;
}

const std::shared_ptr<const transport::Transport>& transport_of(const dissociated::Uri& uri, const std::string& text,
                                                                const transport::TransportRegistry& transports) {
  if (uri.role != ChannelRole::kBoth || uri.want_data || uri.free_data) {
    throw UriError("\"" + excerpt(text) + "\" is for tables: the URI of a peer has no parameters");
  }
  const auto& transport = transports.find(uri.scheme);
  if (!transport->has_peers()) {
    throw UnsupportedError("peers can't reach each other by " + std::string(transport->scheme()) +
                           ": yet; use shm: or tcp:");
  }
  return transport;
}

/// Returns the ms after which a link isn't waited for any more; 0: there is no limit.
std::int64_t open_deadline(std::int64_t now_ms, const TimeLimit& timeout) noexcept {
  return timeout ? now_ms + to_ms(*timeout) : 0;
}

/// Waits on the calling thread for something that happens on the I/O thread.
class Event {
 public:
  void set() {
    {
      const std::lock_guard lock(mutex_);
      set_ = true;
    }
    changed_.notify_all();
  }
  void wait(const transport::InterruptHook& interrupted) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kHookInterval, [this] { return set_; })) {
      lock.unlock();
      if (interrupted && interrupted()) throw InterruptedError("connecting to a peer was interrupted");
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace

// --- a listener's queue ---

bool PeerListener::Impl::add(const std::shared_ptr<Link>& link) {
  Notify call;
  {
    const std::lock_guard lock(mutex);
    if (closed) return false;
    ready.push_back(link);
    call = std::exchange(notify, nullptr);
  }
  if (call) call();
  return true;
}

bool PeerListener::Impl::pause_if_full() noexcept {
  const std::lock_guard lock(mutex);
  if (ready.size() >= kMostReady) paused = true;
  return paused;
}

bool PeerListener::Impl::is_closed() {
  const std::lock_guard lock(mutex);
  return closed;
}

void PeerListener::Impl::close() noexcept {
  std::deque<std::shared_ptr<Link>> dropped;
  Notify call;
  {
    const std::lock_guard lock(mutex);
    closed = true;
    dropped.swap(ready);
    call = std::exchange(notify, nullptr);
  }
  for (const auto& link : dropped) link->abort();
  if (call) call();
}

// --- for the user's threads ---

Hub::Impl::Impl(const HubOptions& options)
    : log_(options.log),
      copies_(std::make_shared<CopyThreads>(kCopyThreads)),
      services_(make_services(options, copies_)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!poll_) throw_errno(errno, "making a descriptor for peers to wait on");
  watch(services_->waker->descriptor(), nullptr);
}

Hub::Impl::~Impl() = default;

/// Starts the thread with the first listener or connection. Call it with the lock held.
void Hub::Impl::start() {
  if (thread_.joinable()) return;
  try {
    const BlockedSignals blocked;  // signals are for the program's own threads
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw ResourceError(std::string("peers can't have a thread of their own: ") + error.what() +
                        "; check the limits: ulimit -u, ulimit -v and the number of mappings (vm.max_map_count)");
  }
}

void Hub::Impl::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  services_->waker->notify();
  if (thread_.joinable()) thread_.join();
  copies_->close();
}

void Hub::Impl::command(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) throw ClosedError("this Hub of peers was closed");
    start();
    commands_.push_back(std::move(call));
  }
  services_->waker->notify();
}

std::shared_ptr<PeerListener::Impl> Hub::Impl::listen(const std::vector<std::string>& uris, PeerOptions options) {
  fork.check(kThisHub);
  if (uris.empty()) throw InvalidArgumentError("no URI was given to listen at; for example: shm:");
  if (options.max_connections == 0) {
    throw InvalidArgumentError("PeerOptions::max_connections is 0: nobody could connect");
  }
  options = with_limits(std::move(options));
  const auto transports = session::make_transports(options.transports);
  auto queue = std::make_shared<PeerListener::Impl>();
  queue->hub = weak_from_this();
  std::list<Listening> made;
  for (const std::string& text : uris) {
    const dissociated::Uri uri = dissociated::parse_uri(text);
    auto listener = transport_of(uri, text, *transports)->listen_for_peers(uri.address, log_);
    queue->uris.push_back(listener->uri());
    made.push_back({std::move(listener), options, queue});
  }
  // A function that std::function takes must be copyable.
  command([this, listening = std::make_shared<std::list<Listening>>(std::move(made))] {
    for (Listening& each : *listening) watch(each.listener->descriptor(), each.listener.get());
    listeners_.splice(listeners_.end(), *listening);
  });
  return queue;
}

std::shared_ptr<Link> Hub::Impl::connect(const std::string& text, PeerOptions options,
                                         const transport::InterruptHook& interrupted) {
  fork.check(kThisHub);
  options = with_limits(std::move(options));
  const auto transports = session::make_transports(options.transports);
  const dissociated::Uri uri = dissociated::parse_uri(text);
  const auto& transport = transport_of(uri, text, *transports);
  auto connection = transport->connect(uri.address,
                                       {.role = ChannelRole::kMessages,
                                        .ways = transport->ways() & (transport::Way::kMap | transport::Way::kMessage),
                                        .keeps_descriptors = true},
                                       to_ms(options.timeout), interrupted);
  auto link = std::make_shared<Link>(std::move(connection), options, services_);
  const auto opened = std::make_shared<Event>();
  link->slot.opens_until = open_deadline(now_ns() / 1'000'000, options.timeout);
  link->slot.opened = [opened](const std::shared_ptr<Link>&) { opened->set(); };
  command([this, link] { add(link); });
  try {
    opened->wait(interrupted);
  } catch (...) {
    link->abort();
    throw;
  }
  if (!link->open()) std::rethrow_exception(link->failure());
  return link;
}

void Hub::Impl::stop_listening(std::shared_ptr<PeerListener::Impl> queue) noexcept {
  try {
    command([this, queue = std::move(queue)] {
      std::erase_if(listeners_, [&](const Listening& each) { return each.queue == queue; });
    });
  } catch (const std::exception&) {
    // The hub is closed, and so are its listeners; or there is no memory, and new peers are ended as they come.
  }
}

void Hub::Impl::go_on_accepting(std::shared_ptr<PeerListener::Impl> queue) noexcept {
  try {
    command([this, queue = std::move(queue)] { set_accepting(*queue, true); });
  } catch (const std::exception&) {
    // The hub is closed.
  }
}

// --- the I/O thread ---

void Hub::Impl::watch(int descriptor, void* what) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = what}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw_errno(errno, "watching a descriptor of a peer");
  }
}

void Hub::Impl::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& call : commands) {
    try {
      call();
    } catch (const std::exception& reason) {
      session::say(log_, LogLevel::kError, [&] { return std::string("a peer can't be served: ") + reason.what(); });
    }
  }
}

void Hub::Impl::run() noexcept {
  std::int64_t idle_since = 0;  // ns; 0: the last round had work
  for (;;) {
    const std::uint64_t seen = services_->waker->seen();
    run_commands();
    {
      const std::lock_guard lock(mutex_);
      if (closing_) break;
    }
    while (void* const woken = services_->waker->next_woken()) wake(*static_cast<Link*>(woken));
    now_ = now_ns();
    const bool busy = round();
    if (now_ - polled_ >= kPollInterval) {
      check_deadlines();
      poll_events(0);
    }
    if (busy) {
      idle_since = 0;
      continue;
    }
    if (idle_since == 0) idle_since = now_;
    if (!awake_.empty() && now_ - idle_since < kSpin) continue;
    sleep(seen);
    idle_since = 0;
  }
  run_commands();
  for (const Listening& each : listeners_) each.queue->close();
  listeners_.clear();
  const auto reason = std::make_exception_ptr(ClosedError("the Hub of this Peer was closed"));
  while (!links_.empty()) {
    Link& link = *links_.begin()->first;
    link.fail(reason);
    remove(link);
  }
}

bool Hub::Impl::round() {
  bool busy = false;
  for (std::size_t i = 0; i < awake_.size();) {
    Link* const link = awake_[i];
    bool readable = link->slot.ready;
    try {
      readable = readable || (!link->waits_for_region() && link->connection().readable());
    } catch (const std::exception&) {
      readable = true;  // its turn finds out
    }
    if (readable) {
      link->slot.last_busy = now_;
      busy |= turn(*link);
    } else if (now_ - link->slot.last_busy >= kIdleBeforeSleep) {
      put_to_sleep(*link);
    }
    if (i < awake_.size() && awake_[i] == link) ++i;  // else another link has its place
  }
  return busy;
}

/// Returns true if there was progress; `link` may be destroyed then.
bool Hub::Impl::turn(Link& link) {
  const std::uint64_t seen = link.waker().seen();
  bool progress = link.turn();
  if (!progress && !link.over()) progress = !link.waker().wait(seen);
  link.slot.ready = progress;
  if (link.slot.opened && (link.open() || link.over())) {
    link.slot.opens_until = 0;
    std::exchange(link.slot.opened, nullptr)(link.shared_from_this());
  }
  if (!link.over()) return progress;
  if (link.slot.opened == nullptr) {
    if (const auto failure = link.failure()) {
      try {
        std::rethrow_exception(failure);
      } catch (const Error& error) {
        const bool hostile = error.code() == ErrorCode::kProtocol || error.code() == ErrorCode::kInvalidData;
        session::say(log_, hostile ? LogLevel::kWarning : LogLevel::kDebug,
                     [&] { return std::string("a connection of peers ended: ") + error.what(); });
      } catch (const std::exception& error) {
        session::say(log_, LogLevel::kError,
                     [&] { return std::string("a connection of peers ended: ") + error.what(); });
      }
    }
  }
  remove(link);
  return true;
}

void Hub::Impl::add(const std::shared_ptr<Link>& link) {
  try {
    links_.emplace(link.get(), link);
    awake_.reserve(links_.size());
    watch(link->connection().descriptor(), link.get());
  } catch (...) {
    link->fail(std::current_exception());
    if (link->slot.opened) std::exchange(link->slot.opened, nullptr)(link);
    links_.erase(link.get());
    throw;
  }
  wake(*link);
}

void Hub::Impl::remove(Link& link) noexcept {
  // Closing the descriptor doesn't unregister it while a forked child holds a copy.
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, link.connection().descriptor(), nullptr);
  leave_awake(link);
  link.forget();
  if (link.slot.opened) std::exchange(link.slot.opened, nullptr)(link.shared_from_this());
  links_.erase(&link);
}

void Hub::Impl::leave_awake(Link& link) noexcept {
  if (link.slot.place == Link::Slot::kAsleep) return;
  awake_[link.slot.place] = awake_.back();
  awake_[link.slot.place]->slot.place = link.slot.place;
  awake_.pop_back();
  link.slot.place = Link::Slot::kAsleep;
}

void Hub::Impl::wake(Link& link) {
  link.slot.ready = true;
  link.slot.last_busy = now_;
  if (link.slot.place != Link::Slot::kAsleep) return;
  try {
    link.connection().wake();
  } catch (const std::exception&) {
    // Its turn finds out.
  }
  link.slot.place = awake_.size();
  awake_.push_back(&link);  // has room for all links
}

/// Returns false if the link has something to do after all.
bool Hub::Impl::put_to_sleep(Link& link) noexcept {
  // What else has arrived must wait, so the peer needn't ring: an announcement makes the descriptor readable.
  if (link.waits_for_region()) {
    leave_awake(link);
    return true;
  }
  try {
    if (link.connection().prepare_sleep()) {
      leave_awake(link);
      return true;
    }
  } catch (const std::exception&) {
    // The peer has disconnected: the next turn detects that.
  }
  link.slot.ready = true;
  return false;
}

void Hub::Impl::sleep(std::uint64_t seen) {
  while (!awake_.empty()) {
    if (!put_to_sleep(*awake_.back())) return;
  }
  if (!services_->waker->prepare_sleep(seen)) return;
  const bool waits = std::ranges::any_of(
      links_, [](const auto& entry) { return entry.first->slot.opens_until != 0 || entry.first->deadline_ms() != 0; });
  poll_events(waits ? kDeadlineCheckMs : -1);
  services_->waker->woke();
  check_deadlines();
}

void Hub::Impl::poll_events(int timeout_ms) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int got = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  now_ = now_ns();
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(got, 0)))) {
    if (event.data.ptr == nullptr) continue;  // the waker
    const auto listening =
        std::ranges::find_if(listeners_, [&](const Listening& each) { return each.listener.get() == event.data.ptr; });
    if (listening != listeners_.end()) {
      accept_from(*listening);
    } else if (const auto link = links_.find(static_cast<Link*>(event.data.ptr)); link != links_.end()) {
      wake(*link->first);
    }
  }
  polled_ = now_ns();  // after new peers were accepted, which takes a while: then the others have their turn
}

/// Has the descriptors of the queue's listeners wake the thread or not.
void Hub::Impl::set_accepting(const PeerListener::Impl& queue, bool on) noexcept {
  for (const Listening& each : listeners_) {
    if (each.queue.get() != &queue) continue;
    epoll_event event{.events = on ? std::uint32_t{EPOLLIN} : 0, .data = {.ptr = each.listener.get()}};
    ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, each.listener->descriptor(), &event);
  }
}

void Hub::Impl::accept_from(Listening& listening) {
  const std::int64_t end = now_ns() + kAcceptTime;
  do {
    // Who connects after close() isn't welcomed, though this thread has still to close the socket.
    if (listening.queue->is_closed() || listening.queue->pause_if_full()) return set_accepting(*listening.queue, false);
    const auto connections = static_cast<std::uint64_t>(listening.queue->place.use_count() - 1);
    listening.listener->reject_all(connections >= listening.options.max_connections);
    try {
      std::unique_ptr<transport::Connection> connection = listening.listener->accept();
      if (!connection) {
        pollfd more{listening.listener->descriptor(), POLLIN, 0};
        if (::poll(&more, 1, 0) <= 0) return;
        continue;
      }
      const auto link =
          std::make_shared<Link>(std::move(connection), listening.options, services_, listening.queue->place);
      link->slot.opens_until = open_deadline(now_ / 1'000'000, listening.options.timeout);
      link->slot.opened = [queue = std::weak_ptr(listening.queue)](const std::shared_ptr<Link>& opened) {
        const auto alive = queue.lock();
        if (!opened->open() || !alive || !alive->add(opened)) opened->abort();
      };
      add(link);
    } catch (const std::exception& reason) {
      session::say(log_, LogLevel::kError,
                   [&] { return std::string("a peer could not be accepted: ") + reason.what(); });
      return;
    }
  } while (now_ns() < end);  // the descriptor stays readable
}

void Hub::Impl::check_deadlines() {
  if (now_ - checked_ < kDeadlineCheck) return;
  checked_ = now_;
  const std::int64_t now_ms = now_ / 1'000'000;
  std::vector<Link*> late;
  for (const auto& [link, owner] : links_) {
    if (link->slot.opens_until != 0 && now_ms >= link->slot.opens_until) late.push_back(link);
    if (link->deadline_ms() != 0) wake(*link);
  }
  for (Link* const link : late) {
    link->fail(std::make_exception_ptr(
        TimeoutError(link->connection().agreement().peer + " didn't say in time which messages it takes")));
    remove(*link);
  }
}

}  // namespace crossdock::peers
