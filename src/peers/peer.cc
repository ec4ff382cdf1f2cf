#include "crossdock/peers/peer.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/amounts.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"
#include "device/leak.h"
#include "peers/hub.h"
#include "peers/link.h"

namespace crossdock::peers {
namespace {

/// Waits for a call on another thread. The call keeps it, since the one who waits may be interrupted.
class Signal : public std::enable_shared_from_this<Signal> {
 public:
  void set(std::exception_ptr failure = nullptr) {
    {
      const std::lock_guard lock(mutex_);
      set_ = true;
      failure_ = std::move(failure);
    }
    changed_.notify_all();
  }
  /// Returns false at the time limit. Throws the failure, and InterruptedError.
  bool wait(int timeout_ms, const transport::InterruptHook& interrupted, const char* what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    std::unique_lock lock(mutex_);
    while (!set_) {
      auto until = std::chrono::steady_clock::now() + kHookInterval;
      if (timeout_ms >= 0) {
        if (std::chrono::steady_clock::now() >= end) return false;
        until = std::min(until, end);
      }
      if (interrupted || timeout_ms >= 0) {
        changed_.wait_until(lock, until);
      } else {
        changed_.wait(lock);
      }
      if (!set_ && interrupted) {
        lock.unlock();
        if (interrupted()) throw InterruptedError(std::string(what) + " was interrupted");
        lock.lock();
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  std::exception_ptr failure_;
};

Notify notifier(const std::shared_ptr<Signal>& signal) {
  return [signal] { signal->set(); };
}

/// In a forked child: the link is the parent's, and its locks may be held for ever.
template <class T>
bool leak_in_child(std::shared_ptr<T> object, bool in_child) noexcept {
  if (in_child) device::leak(std::move(object));
  return in_child;
}

/// Returns what `call` returns or throws.
template <class Call>
PollResult<std::invoke_result_t<Call>> polled(Call call) noexcept {
  try {
    return {.value = call()};
  } catch (...) {
    return {.error = std::current_exception()};
  }
}

/// Returns a peer that waits to be accepted, or null.
std::unique_ptr<Peer> take_accepted(const std::shared_ptr<PeerListener::Impl>& listener) {
  listener->fork.check("this PeerListener");
  std::shared_ptr<Link> link;
  bool paused = false;
  {
    const std::lock_guard lock(listener->mutex);
    if (listener->closed) throw ClosedError("this PeerListener was closed");
    if (listener->ready.empty()) return nullptr;
    link = std::move(listener->ready.front());
    listener->ready.pop_front();
    paused = std::exchange(listener->paused, false);
  }
  if (paused) {
    if (const auto hub = listener->hub.lock()) hub->go_on_accepting(listener);
  }
  return std::make_unique<Peer>(std::move(link));
}

/// The rest of a time limit, for a wait that is repeated.
class TimeLeft {
 public:
  explicit TimeLeft(int timeout_ms) : timeout_ms_(timeout_ms) {}
  int ms() const {
    if (timeout_ms_ < 0) return -1;
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin_);
    return static_cast<int>(std::max<std::int64_t>(timeout_ms_ - passed.count(), 0));
  }

 private:
  const int timeout_ms_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

PeerOptions::PeerOptions() { transports.shm.ring_bytes = 256 << 10; }

Peer::Peer(std::shared_ptr<Link> link) : link_(std::move(link)) {}
Peer::~Peer() {
  if (!leak_in_child(link_, link_->in_child()) && !link_->closed()) link_->abort();
}

bool Peer::send(std::span<const OutgoingFrame> frames, std::span<const std::byte> meta, Done done) {
  return link_->send(frames, meta, std::move(done));
}

void Peer::send(std::span<const OutgoingFrame> frames, std::span<const std::byte> meta,
                const transport::InterruptHook& interrupted) {
  const auto signal = std::make_shared<Signal>();
  if (link_->send(frames, meta, [signal](std::exception_ptr failure) { signal->set(std::move(failure)); })) return;
  signal->wait(-1, interrupted, "sending a message to a peer");
}

PollResult<std::optional<Message>> Peer::try_recv() noexcept {
  return polled([this] { return link_->try_recv(); });
}
void Peer::when_readable(Notify notify) { link_->when_readable(std::move(notify)); }

Message Peer::recv(const TimeLimit& timeout, const transport::InterruptHook& interrupted) {
  const TimeLeft left(to_ms(timeout));
  for (;;) {
    if (auto message = link_->try_recv()) return *std::move(message);
    const auto signal = std::make_shared<Signal>();
    link_->when_readable(notifier(signal));
    if (!signal->wait(left.ms(), interrupted, "waiting for a message of a peer")) {
      throw TimeoutError(name() + " sent no message within " + in_seconds(*timeout));
    }
  }
}

void Peer::close(Done done) { link_->close(std::move(done)); }
void Peer::abort() noexcept { link_->abort(); }
bool Peer::closed() const noexcept { return link_->closed(); }
bool Peer::same_machine() const noexcept { return !link_->agreement().carrier.starts_with("tcp"); }
bool Peer::shares_memory() const noexcept { return link_->shares(); }
std::uint32_t Peer::pid() const noexcept { return link_->agreement().peer_pid; }
std::uint32_t Peer::uid() const noexcept { return link_->agreement().peer_uid; }
const std::string& Peer::version() const noexcept { return link_->version(); }
const std::string& Peer::name() const noexcept { return link_->agreement().peer; }
Peer::Stats Peer::stats() const { return link_->stats(); }

PeerListener::PeerListener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerListener::~PeerListener() {
  if (!leak_in_child(impl_, impl_->fork.in_child())) close();
}
const std::string& PeerListener::uri() const noexcept { return uris().front(); }
const std::vector<std::string>& PeerListener::uris() const noexcept { return impl_->uris; }

PollResult<std::unique_ptr<Peer>> PeerListener::try_accept() noexcept {
  return polled([this] { return take_accepted(impl_); });
}

void PeerListener::when_readable(Notify notify) {
  impl_->fork.check("this PeerListener");
  {
    const std::lock_guard lock(impl_->mutex);
    if (!notify || (impl_->ready.empty() && !impl_->closed)) {
      impl_->notify.swap(notify);
      return;
    }
  }
  notify();
}

std::unique_ptr<Peer> PeerListener::accept(const TimeLimit& timeout, const transport::InterruptHook& interrupted) {
  const TimeLeft left(to_ms(timeout));
  for (;;) {
    if (auto peer = take_accepted(impl_)) return peer;
    const auto signal = std::make_shared<Signal>();
    when_readable(notifier(signal));
    if (!signal->wait(left.ms(), interrupted, "waiting for a peer")) {
      throw TimeoutError("no peer connected within " + in_seconds(*timeout));
    }
  }
}

void PeerListener::close() noexcept {
  if (impl_->fork.in_child()) return;
  impl_->close();
  if (const auto hub = impl_->hub.lock()) hub->stop_listening(impl_);
}

Hub::Hub(const HubOptions& options) : impl_(std::make_shared<Impl>(options)) {}
Hub::~Hub() {
  if (!leak_in_child(impl_, impl_->fork.in_child())) impl_->stop();
}

std::unique_ptr<PeerListener> Hub::listen(const std::vector<std::string>& uris, const PeerOptions& options) {
  return std::make_unique<PeerListener>(impl_->listen(uris, options));
}

std::unique_ptr<Peer> Hub::connect(const std::string& uri, const PeerOptions& options,
                                   const transport::InterruptHook& interrupted) {
  return std::make_unique<Peer>(impl_->connect(uri, options, interrupted));
}

}  // namespace crossdock::peers
