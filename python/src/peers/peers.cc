#include "peers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "../errors.h"
#include "../interrupt.h"
#include "../pool.h"
#include "../text.h"
#include "../time_limit.h"
#include "buffers.h"
#include "completions.h"
#include "core/fork.h"
#include "crossdock/peers/peer.h"
#include "device/leak.h"
#include "frame.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using peers::Hub;
using peers::PeerOptions;

/// The completions of one event loop, which watches the descriptor.
class PyPeerEvents {
 public:
  PyPeerEvents() : completions_(std::make_shared<Completions>()) {}
  PyPeerEvents(const PyPeerEvents&) = delete;
  PyPeerEvents& operator=(const PyPeerEvents&) = delete;
  ~PyPeerEvents() { completions_->close(); }  // operations under way keep the object

  const std::shared_ptr<Completions>& completions() const noexcept { return completions_; }
  int descriptor() const noexcept { return completions_->descriptor(); }
  nb::list take() {
    nb::list result;
    const std::vector<Completion> taken = completions_->take();
    drain_deferred();  // after take(): buffers are dropped before their send() is over
    for (const Completion& one : taken) {
      result.append(nb::make_tuple(one.id, one.error ? exception_object(one.error) : nb::none()));
    }
    return result;
  }

 private:
  const std::shared_ptr<Completions> completions_;
};

peers::Done done_of(const std::shared_ptr<ExpectedCompletion>& completion) {
  return [completion](std::exception_ptr error) { completion->complete(std::move(error)); };
}

peers::Notify notify_of(const PyPeerEvents& events, std::uint64_t id) {
  return [completion = std::make_shared<ExpectedCompletion>(events.completions(), id)] { completion->complete(); };
}

/// Exports a bytes-like object for the length of a call.
class MetaView {
 public:
  explicit MetaView(nb::handle object) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) throw_type_error(object, "meta must be bytes");
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  MetaView(const MetaView&) = delete;
  MetaView& operator=(const MetaView&) = delete;
  ~MetaView() { PyBuffer_Release(&view_); }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

class PyPeer {
 public:
  PyPeer(std::unique_ptr<peers::Peer> peer) : peer_(std::move(peer)) {}
  PyPeer(const PyPeer&) = delete;
  PyPeer& operator=(const PyPeer&) = delete;
  ~PyPeer() {
    const GilRelease release;
    kept_.reset();
    peer_.reset();
  }

  bool send(nb::handle frames, nb::handle meta, const PyPeerEvents& events, std::uint64_t id) {
    made_in_.check("this Peer");  // first: the locks of `events` are the parent's, too
    drain_deferred();
    const MetaView meta_view(meta);
    std::vector<peers::OutgoingFrame> outgoing = frames_of(frames, events.completions());
    peers::Done done = done_of(std::make_shared<ExpectedCompletion>(events.completions(), id));
    const GilRelease release;
    return peer_->send(outgoing, meta_view.bytes(), std::move(done));
  }

  /// Returns None, or the meta bytes and the list of frames. A message that can't be returned, because there is no
  /// memory to make it writable or for Python's objects, is returned by the next call.
  nb::object try_recv(bool writable) {
    made_in_.check("this Peer");
    drain_deferred();
    std::optional<peers::Message> message = std::exchange(kept_, std::nullopt);
    try {
      without_gil([&] {
        if (!message) message = peer_->try_recv().get();
        if (message && writable) message->make_writable();
      });
      if (!message) return nb::none();
      const std::span<const std::byte> meta = message->meta();
      return nb::make_tuple(nb::bytes(meta.data(), meta.size()), list_of_frames(*message, writable));
    } catch (...) {
      kept_ = std::move(message);
      throw;
    }
  }

  void when_readable(const PyPeerEvents& events, std::uint64_t id) {
    made_in_.check("this Peer");
    peers::Notify notify = notify_of(events, id);
    const GilRelease release;
    peer_->when_readable(std::move(notify));
  }
  void not_when_readable() {
    made_in_.check("this Peer");
    const GilRelease release;
    peer_->when_readable(nullptr);
  }

  void close(const PyPeerEvents& events, std::uint64_t id) {
    made_in_.check("this Peer");
    drain_deferred();
    peers::Done done = done_of(std::make_shared<ExpectedCompletion>(events.completions(), id));
    const GilRelease release;
    kept_.reset();
    peer_->close(std::move(done));
  }
  void abort() {
    if (made_in_.in_child()) return;
    drain_deferred();
    const GilRelease release;
    kept_.reset();
    peer_->abort();
  }

  const peers::Peer& peer() const noexcept { return *peer_; }
  nb::dict stats() const {
    made_in_.check("this Peer");
    const peers::Peer::Stats stats = without_gil([this] { return peer_->stats(); });
    nb::dict result;
    result["sent"] = stats.sent;
    result["received"] = stats.received;
    result["frames_by_address"] = stats.frames_by_address;
    result["bytes_by_address"] = stats.bytes_by_address;
    result["bytes_by_value"] = stats.bytes_by_value;
    result["bytes_copied"] = stats.bytes_copied;
    result["regions_with_peer"] = stats.regions_with_peer;
    result["regions_of_peer"] = stats.regions_of_peer;
    return result;
  }

 private:
  const ForkGuard made_in_;
  std::unique_ptr<peers::Peer> peer_;
  std::optional<peers::Message> kept_;  // guarded by the GIL
};

class PyPeerListener {
 public:
  PyPeerListener(std::unique_ptr<peers::PeerListener> listener) : listener_(std::move(listener)) {}
  PyPeerListener(const PyPeerListener&) = delete;
  PyPeerListener& operator=(const PyPeerListener&) = delete;
  ~PyPeerListener() {
    const GilRelease release;
    listener_.reset();
  }

  const std::vector<std::string>& uris() const noexcept { return listener_->uris(); }
  /// Returns a new object that the caller owns, or null.
  PyPeer* try_accept() {
    made_in_.check("this Listener");
    drain_deferred();
    std::unique_ptr<peers::Peer> peer = without_gil([this] { return listener_->try_accept().get(); });
    return peer == nullptr ? nullptr : new PyPeer(std::move(peer));
  }
  void when_readable(const PyPeerEvents& events, std::uint64_t id) {
    made_in_.check("this Listener");
    peers::Notify notify = notify_of(events, id);
    const GilRelease release;
    listener_->when_readable(std::move(notify));
  }
  void not_when_readable() {
    made_in_.check("this Listener");
    const GilRelease release;
    listener_->when_readable(nullptr);
  }
  void close() {
    if (made_in_.in_child()) return;
    const GilRelease release;
    listener_->close();
  }

 private:
  const ForkGuard made_in_;
  std::unique_ptr<peers::PeerListener> listener_;
};

class PyPeerHub {
 public:
  explicit PyPeerHub(nb::handle pool) {
    peers::HubOptions options{.pool = pool.is_none() ? nullptr : pool_in(pool), .log = log_to_python()};
    hub_ = without_gil([&] { return std::make_shared<Hub>(std::move(options)); });
  }
  PyPeerHub(const PyPeerHub&) = delete;
  PyPeerHub& operator=(const PyPeerHub&) = delete;
  ~PyPeerHub() {
    if (made_in_.in_child()) {
      device::leak(std::move(hub_));  // its threads, which the destructor joins, are the parent's
      return;
    }
    close();
  }

  /// Return new objects that the caller owns.
  PyPeerListener* listen(const std::vector<std::string>& uris, const PeerOptions& options) {
    const std::shared_ptr<Hub> hub = opened();
    return new PyPeerListener(blocking([&](const transport::InterruptHook&) { return hub->listen(uris, options); }));
  }
  PyPeer* connect(const std::string& uri, const PeerOptions& options, Interrupt& interrupt) {
    const std::shared_ptr<Hub> hub = opened();
    return new PyPeer(
        blocking(interrupt, [&](const transport::InterruptHook& hook) { return hub->connect(uri, options, hook); }));
  }
  void close() {
    if (made_in_.in_child()) return;
    std::shared_ptr<Hub> hub = std::exchange(hub_, nullptr);
    const GilRelease release;
    hub.reset();
  }

 private:
  std::shared_ptr<Hub> opened() const {
    made_in_.check("this PeerHub");
    if (hub_ == nullptr) throw ClosedError("no connection of peers can be made: the interpreter is ending");
    return hub_;
  }

  const ForkGuard made_in_;
  std::shared_ptr<Hub> hub_;  // guarded by the GIL
};

void bind_options(nb::module_& module) {
  nb::class_<PeerOptions>(module, "PeerOptions")
      .def(nb::init<>())
      .def_rw("share_from", &PeerOptions::share_from)
      .def_rw("max_message", &PeerOptions::max_message)
      .def_rw("max_frames", &PeerOptions::max_frames)
      .def_rw("window_messages", &PeerOptions::window_messages)
      .def_rw("window_bytes", &PeerOptions::window_bytes)
      .def_rw("max_regions", &PeerOptions::max_regions)
      .def_rw("lease_limit", &PeerOptions::lease_limit)
      .def_rw("max_connections", &PeerOptions::max_connections)
      .def_prop_rw("timeout_ms", nullptr, [](PeerOptions& self, std::int64_t ms) { self.timeout = time_limit(ms); })
      .def_prop_rw("transports", nullptr, [](PeerOptions& self, const session::TransportOptions& options) {
        const std::uint64_t ring_bytes = self.transports.shm.ring_bytes;  // peers have their own default
        self.transports = options;
        self.transports.shm.ring_bytes = ring_bytes;
      });
}

}  // namespace

void bind_peers(nb::module_& module) {
  bind_options(module);
  bind_peer_frame(module);

  nb::class_<PyPeerEvents>(module, "PeerEvents")
      .def(nb::init<>())
      .def_prop_ro("descriptor", &PyPeerEvents::descriptor, "Readable while take() has something to return or to run.")
      .def("take", &PyPeerEvents::take, "Returns what is over: a list of ids, each with None or an exception.");

  nb::class_<PyPeer>(module, "Peer")
      .def("send", &PyPeer::send, "frames"_a.none(), "meta"_a.none(), "events"_a, "id"_a,
           "Returns True if it is over; otherwise `events` gets `id` when it is.")
      .def("try_recv", &PyPeer::try_recv, "writable"_a)
      .def("when_readable", &PyPeer::when_readable, "events"_a, "id"_a)
      .def("not_when_readable", &PyPeer::not_when_readable)
      .def("close", &PyPeer::close, "events"_a, "id"_a)
      .def("abort", &PyPeer::abort)
      .def("stats", &PyPeer::stats)
      .def_prop_ro("closed", [](const PyPeer& self) { return self.peer().closed(); })
      .def_prop_ro("same_machine", [](const PyPeer& self) { return self.peer().same_machine(); })
      .def_prop_ro("shares_memory", [](const PyPeer& self) { return self.peer().shares_memory(); })
      .def_prop_ro("pid",
                   [](const PyPeer& self) {
                     const std::uint32_t pid = self.peer().pid();
                     return pid == 0 ? std::optional<std::uint32_t>() : std::optional(pid);
                   })
      .def_prop_ro("version", [](const PyPeer& self) { return displayed(self.peer().version()); })
      .def_prop_ro("name", [](const PyPeer& self) { return displayed(self.peer().name()); });

  nb::class_<PyPeerListener>(module, "PeerListener")
      .def_prop_ro("uris", &PyPeerListener::uris)
      .def("try_accept", &PyPeerListener::try_accept, nb::rv_policy::take_ownership)
      .def("when_readable", &PyPeerListener::when_readable, "events"_a, "id"_a)
      .def("not_when_readable", &PyPeerListener::not_when_readable)
      .def("close", &PyPeerListener::close);

  nb::class_<PyPeerHub>(module, "PeerHub")
      .def(nb::init<nb::handle>(), "pool"_a.none())
      .def("listen", &PyPeerHub::listen, nb::rv_policy::take_ownership, "uris"_a, "options"_a)
      .def("connect", &PyPeerHub::connect, nb::rv_policy::take_ownership, "uri"_a, "options"_a, "interrupt"_a)
      .def("close", &PyPeerHub::close);
}

}  // namespace crossdock::python
