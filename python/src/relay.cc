#include "crossdock/session/relay.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deferred.h"
#include "interrupt.h"
#include "module.h"
#include "server_stats.h"
#include "text.h"
#include "time_limit.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

/// All relays of this process. Guarded by the GIL.
std::vector<std::weak_ptr<session::Relay>>& all_relays() {
  static std::vector<std::weak_ptr<session::Relay>> relays;
  return relays;
}

class PyRelay {
 public:
  PyRelay(std::vector<std::string> upstream, const session::ServerOptions& server,
          const session::TransportOptions& transports, int timeout_ms, std::uint64_t max_memory, int max_age_ms,
          bool stale) {
    session::RelayOptions options{
        .server = server,
        .client = {.timeout = time_limit(timeout_ms), .transports = session::make_transports(transports)},
        .max_memory = max_memory,
        .max_age = std::chrono::milliseconds(max_age_ms),
        .stale = stale};
    options.server.log = log_to_python();
    relay_ = blocking([&](const transport::InterruptHook& hook) {
      return std::make_shared<session::Relay>(std::move(upstream), std::move(options), hook);
    });
    auto& relays = all_relays();
    std::erase_if(relays, [](const auto& relay) { return relay.expired(); });
    relays.push_back(relay_);
  }
  PyRelay(const PyRelay&) = delete;
  PyRelay& operator=(const PyRelay&) = delete;
  ~PyRelay() {
    const GilRelease release;
    relay_.reset();
  }

  const std::vector<std::string>& uris() const { return relay_->uris(); }
  bool closed() const noexcept { return closed_.load(); }

  bool drain(int timeout_ms) {
    return blocking([&](const transport::InterruptHook& hook) { return relay_->drain(time_limit(timeout_ms), hook); });
  }

  void close() {
    blocking([this](const transport::InterruptHook& hook) {
      closed_.store(true);
      relay_->close(hook);
    });
  }

  nb::dict stats() const {
    return dict_of(blocking([this](const transport::InterruptHook&) { return relay_->stats(); }));
  }

 private:
  std::shared_ptr<session::Relay> relay_;
  std::atomic<bool> closed_{false};
};

}  // namespace

void close_all_relays() {
  blocking([relays = std::exchange(all_relays(), {})](const transport::InterruptHook& hook) {
    for (const auto& weak : relays) {
      const auto relay = weak.lock();
      if (!relay) continue;
      try {
        relay->close(hook);
      } catch (const ForkError&) {
        // The relay belongs to the parent.
      }
    }
  });
}

void bind_relay(nb::module_& module) {
  nb::class_<PyRelay>(module, "Relay")
      .def(nb::init<std::vector<std::string>, const session::ServerOptions&, const session::TransportOptions&, int,
                    std::uint64_t, int, bool>(),
           "upstream"_a, "server"_a, "transports"_a, "timeout_ms"_a, "max_memory"_a, "max_age_ms"_a, "stale"_a)
      .def_prop_ro("uris", &PyRelay::uris)
      .def_prop_ro("closed", &PyRelay::closed)
      .def("stats", &PyRelay::stats)
      .def("drain", &PyRelay::drain, "timeout_ms"_a)
      .def("close", &PyRelay::close);
}

}  // namespace crossdock::python
