#include "module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/session/server.h"
#include "deferred.h"
#include "interrupt.h"
#include "options.h"
#include "producer.h"
#include "source_thread.h"
#include "text.h"
#include "transport/shm.h"
#include "types.h"
#include "wait.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

/// All servers of this process. Guarded by the GIL, so that the list is consistent after a fork.
std::vector<std::weak_ptr<session::Server>>& all_servers() {
  static std::vector<std::weak_ptr<session::Server>> servers;
  return servers;
}

class PyServer {
 public:
  explicit PyServer(session::ServerOptions options) {
    options.log = log_to_python();
    server_ = blocking(
        [&](const transport::InterruptHook&) { return std::make_shared<session::Server>(std::move(options)); });
    auto& servers = all_servers();
    std::erase_if(servers, [](const auto& server) { return server.expired(); });
    servers.push_back(server_);
  }
  PyServer(const PyServer&) = delete;
  PyServer& operator=(const PyServer&) = delete;
  ~PyServer() {
    // A source's thread can't wait for its own end, so the server is closed by a Python thread.
    if (is_source_thread()) {
      defer_call([server = std::move(server_)]() mutable {
        const GilRelease release;
        server.reset();
      });
      return;
    }
    const GilRelease release;
    server_.reset();
  }

  std::string uri() const { return server_->uri(); }
  const std::vector<std::string>& uris() const { return server_->uris(); }
  const std::vector<std::string>& locations() const { return server_->locations(); }
  std::string location(const std::string& name) {
    const GilRelease release;  // the server's thread answers
    return server_->location(name);
  }
  bool closed() const noexcept { return closed_.load(); }

  void publish_table(const std::string& name, nb::handle producer, bool replace, std::uint64_t times) {
    auto stream = open_producer(producer);
    blocking([&](const transport::InterruptHook& hook) {
      server_->publish(name, session::Source::table(interruptible_stream(std::move(stream), hook)),
                       {.replace = replace, .times = times, .wait = wait_for_event});
    });
  }
  void publish_live(const std::string& name, nb::handle producer, bool replace) {
    publish(name, session::Source::live(open_live(producer)), replace);
  }
  void publish_callable(const std::string& name, nb::handle callable, bool replace) {
    publish(name, session::Source::factory(factory_of(callable)), replace);
  }
  void publish_file(const std::string& name, const nb::bytes& path, bool snapshot, bool replace, std::uint64_t times) {
    publish(name,
            session::Source::file(std::string(path.c_str(), path.size()),
                                  snapshot ? session::Stability::kSnapshot : session::Stability::kTrust),
            replace, times);
  }

  void withdraw(const std::string& name) {
    blocking([&](const transport::InterruptHook&) { server_->withdraw(name); });
  }

  void close() {
    if (is_source_thread()) {
      throw InvalidArgumentError("a source can't close the server that runs it; close it from another thread");
    }
    blocking([this](const transport::InterruptHook& hook) {
      try {
        server_->close(hook);
      } catch (const InterruptedError&) {
        closed_.store(true);  // closed for all except the source that it waited for
        throw;
      }
      closed_.store(true);
    });
  }

  nb::dict stats() const {
    const session::ServerStats stats = blocking([this](const transport::InterruptHook&) { return server_->stats(); });
    nb::list sources;
    for (const session::SourceStats& source : stats.sources) {
      nb::dict entry;
      entry["name"] = displayed(source.name);
      entry["kind"] = source.kind;
      entry["rows"] = count_or_none(source.rows);
      entry["bytes"] = count_or_none(source.bytes);
      entry["bytes_copied"] = source.bytes_copied;
      entry["consumers"] = source.consumers;
      sources.append(entry);
    }
    nb::list consumers;
    for (const session::ConsumerStats& consumer : stats.consumers) {
      nb::dict entry;
      entry["pid"] = consumer.pid;
      entry["peer"] = displayed(consumer.peer);
      entry["name"] = displayed(consumer.name);
      entry["batches"] = consumer.batches;
      entry["rows"] = consumer.rows;
      entry["bytes"] = consumer.bytes;
      entry["window"] = consumer.window;
      entry["in_flight"] = consumer.in_flight;
      entry["leases"] = consumer.leases;
      entry["leased_bytes"] = consumer.leased_bytes;
      entry["oldest_lease"] =
          consumer.oldest_lease_ms < 0 ? nb::none() : nb::object(nb::float_(consumer.oldest_lease_ms / 1000.0));
      entry["bytes_by_value"] = consumer.bytes_by_value;
      entry["carrier"] = consumer.carrier;
      entry["way"] =
          consumer.why.empty() ? nb::none() : nb::object(nb::cast(std::string(transport::way_name(consumer.way))));
      entry["why"] = consumer.why.empty() ? nb::none() : nb::object(nb::cast(consumer.why));
      consumers.append(entry);
    }
    nb::dict result;
    result["sources"] = sources;
    result["consumers"] = consumers;
    result["connections"] = stats.connections;
    result["protocol_errors"] = stats.protocol_errors;
    result["bitmap_bytes_copied"] = stats.bitmap_bytes_copied;
    return result;
  }

 private:
  void publish(const std::string& name, session::Source source, bool replace, std::uint64_t times = 0) {
    blocking([&](const transport::InterruptHook&) {
      server_->publish(name, std::move(source), {.replace = replace, .times = times});
    });
  }

  std::shared_ptr<session::Server> server_;
  std::atomic<bool> closed_{false};
};

}  // namespace

void close_all_servers() {
  std::vector<std::shared_ptr<session::Server>> servers;
  for (const auto& weak : std::exchange(all_servers(), {})) {
    if (auto server = weak.lock()) servers.push_back(std::move(server));
  }
  try {
    blocking([&](const transport::InterruptHook& hook) {
      // First closes all servers without waiting for their sources, then waits. In a forked child, the servers belong
      // to the parent.
      for (const auto& server : servers) {
        try {
          server->close([] { return true; });
        } catch (const Error&) {
        }
      }
      for (const auto& server : servers) {
        try {
          server->close(hook);
        } catch (const ForkError&) {
        }
      }
      servers.clear();
    });
  } catch (const nb::python_error&) {
    // Ctrl-C: intentional leak. The process ends without waiting for a source that may never return.
    [[maybe_unused]] const auto* left = new std::vector(std::move(servers));
    throw;
  }
}

void bind_server(nb::module_& module) {
  using session::ServerOptions;
  module.def("shm_names", &transport::shm_names);
  nb::class_<ServerOptions>(module, "ServerOptions")
      .def(nb::init<>())
      .def_rw("uris", &ServerOptions::uris)
      .def_rw("window", &ServerOptions::window)
      .def_rw("lease_limit", &ServerOptions::lease_limit)
      .def_rw("lease_patience_ms", &ServerOptions::lease_patience_ms)
      .def_rw("max_leases", &ServerOptions::max_leases)
      .def_rw("max_streams", &ServerOptions::max_streams)
      .def_rw("max_connections", &ServerOptions::max_connections)
      .def_rw("source_threads", &ServerOptions::source_threads)
      .def_rw("limits", &ServerOptions::limits)
      .def_prop_rw("wait", nullptr, [](ServerOptions& self, const std::string& name) { self.wait = wait_of(name); })
      .def_prop_rw("transports", nullptr, [](ServerOptions& self, const session::TransportOptions& options) {
        self.transports = session::make_transports(options);
      });
  nb::class_<PyServer>(module, "Server")
      .def(nb::init<const ServerOptions&>(), "options"_a)
      .def_prop_ro("uri", &PyServer::uri)
      .def_prop_ro("uris", &PyServer::uris)
      .def_prop_ro("locations", &PyServer::locations)
      .def("location", &PyServer::location, "name"_a)
      .def_prop_ro("closed", &PyServer::closed)
      .def("publish_table", &PyServer::publish_table, "name"_a, "producer"_a, "replace"_a, "times"_a)
      .def("publish_live", &PyServer::publish_live, "name"_a, "producer"_a, "replace"_a)
      .def("publish_callable", &PyServer::publish_callable, "name"_a, "callable"_a, "replace"_a)
      .def("publish_file", &PyServer::publish_file, "name"_a, "path"_a, "snapshot"_a, "replace"_a, "times"_a)
      .def("withdraw", &PyServer::withdraw, "name"_a)
      .def("stats", &PyServer::stats)
      .def("close", &PyServer::close);
}

}  // namespace crossdock::python
