#include "module.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/session/server.h"
#include "deferred.h"
#include "errors.h"
#include "interrupt.h"
#include "options.h"
#include "producer.h"
#include "server_stats.h"
#include "source_thread.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"
#include "text.h"
#include "time_limit.h"
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

std::vector<std::string> keys_in(const std::vector<nb::bytes>& keys) {
  std::vector<std::string> all;
  for (const nb::bytes& key : keys) all.emplace_back(key.c_str(), key.size());
  return all;
}

/// A callable of Python's that is asked whether a user has a password. It is called on threads of the library's.
std::function<bool(const std::string&, const std::string&)> login_of(nb::handle callable) {
  auto owner = std::make_shared<PyOwner>(callable.ptr());
  return [owner = std::move(owner)](const std::string& user, const std::string& password) {
    mark_source_thread();  // the server's own thread, which can't close the server
    const GilAcquire gil("checking a login");
    try {
      const nb::object answer =
          nb::handle(owner->get())(nb::str(user.data(), user.size()), nb::str(password.data(), password.size()));
      if (!nb::isinstance<nb::bool_>(answer)) {
        throw InvalidArgumentError("authenticate() must return True or False, not " + type_name_of(answer.ptr()));
      }
      return nb::cast<bool>(answer);
    } catch (const nb::python_error& error) {
      throw RemoteError("authenticate() raised " + describe(error));
    }
  };
}

/// A source that was read. Dropping it may destroy the memory of a large table.
struct PyPrepared {
  explicit PyPrepared(session::Prepared read) : source(std::move(read)) {}
  PyPrepared(PyPrepared&&) noexcept = default;
  PyPrepared& operator=(PyPrepared&&) noexcept = default;
  ~PyPrepared() {
    const GilRelease release;
    const session::Prepared dropped = std::move(source);
  }
  session::Prepared source;
};

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
  const std::string& flight_uri() const { return server_->flight_uri(); }
  std::string location(const nb::bytes& name) {
    const std::string of = name_in(name);
    const GilRelease release;  // the server's thread answers
    return server_->location(of);
  }
  bool closed() const noexcept { return closed_.load(); }

  PyPrepared prepare_table(const nb::bytes& name, nb::handle producer, bool replace, std::uint64_t times) {
    auto stream = open_producer(producer);
    return blocking([&, as = name_in(name)](const transport::InterruptHook& hook) {
      return PyPrepared{server_->prepare(as, session::Source::table(interruptible_stream(std::move(stream), hook)),
                                         {.replace = replace, .times = times, .wait = wait_for_event})};
    });
  }
  PyPrepared prepare_tensor(const nb::bytes& name, const TensorObject& tensor, bool replace, std::uint64_t times) {
    find_drivers_for(*tensor);
    return prepare_waiting(name, session::Source::tensor(*tensor), replace, times);
  }
  PyPrepared prepare_tensors(const nb::bytes& name,
                             const std::vector<std::pair<std::vector<std::string>, TensorObject>>& all, bool replace,
                             std::uint64_t times) {
    std::vector<session::NamedTensor> tensors;
    for (const auto& [path, tensor] : all) {
      find_drivers_for(*tensor);
      tensors.push_back({path, *tensor});
    }
    return prepare_waiting(name, session::Source::tensors(std::move(tensors)), replace, times);
  }
  PyPrepared prepare_live(const nb::bytes& name, nb::handle producer, bool replace) {
    return prepare(name, session::Source::live(open_live(producer)), {.replace = replace});
  }
  PyPrepared prepare_callable(const nb::bytes& name, nb::handle callable, bool replace) {
    return prepare(name, session::Source::factory(factory_of(callable)), {.replace = replace});
  }
  PyPrepared prepare_file(const nb::bytes& name, const nb::bytes& path, bool snapshot, bool replace,
                          std::uint64_t times) {
    return prepare(name,
                   session::Source::file(std::string(path.c_str(), path.size()),
                                         snapshot ? session::Stability::kSnapshot : session::Stability::kTrust),
                   {.replace = replace, .times = times});
  }

  void commit(const std::vector<PyPrepared*>& prepared, const std::vector<nb::bytes>& withdrawn) {
    std::vector<session::Prepared> sources;
    for (PyPrepared* const one : prepared) sources.push_back(std::move(one->source));
    std::vector<std::string> names;
    for (const nb::bytes& name : withdrawn) names.push_back(name_in(name));
    blocking([&](const transport::InterruptHook&) { server_->commit(std::move(sources), names); });
  }

  void withdraw(const nb::bytes& name) {
    blocking([this, which = name_in(name)](const transport::InterruptHook&) { server_->withdraw(which); });
  }

  void replace_ticket_keys(const std::vector<nb::bytes>& keys) {
    blocking(
        [this, secrets = keys_in(keys)](const transport::InterruptHook&) { server_->replace_ticket_keys(secrets); });
  }

  bool drain(int timeout_ms) {
    return blocking([&](const transport::InterruptHook& hook) { return server_->drain(time_limit(timeout_ms), hook); });
  }

  void close() {
    if (is_source_thread()) {
      throw InvalidArgumentError(
          "a source can't close the server that runs it, nor can authenticate(); close it from another thread");
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
    return dict_of(blocking([this](const transport::InterruptHook&) { return server_->stats(); }));
  }

 private:
  /// For data on devices: Ctrl-C ends the waits for their work.
  PyPrepared prepare_waiting(const nb::bytes& name, session::Source source, bool replace, std::uint64_t times) {
    return prepare(name, std::move(source), {.replace = replace, .times = times, .wait = wait_for_event});
  }
  PyPrepared prepare(const nb::bytes& name, session::Source source, const session::PublishOptions& options) {
    return blocking([&, as = name_in(name)](const transport::InterruptHook&) {
      return PyPrepared{server_->prepare(as, std::move(source), options)};
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
  const auto wait_for_sources = [&](const transport::InterruptHook& hook) {
    for (const auto& server : servers) {
      try {
        server->close(hook);
      } catch (const ForkError&) {
      }
    }
    servers.clear();
  };
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
      wait_for_sources(hook);
    });
  } catch (const nb::python_error&) {
    // Ctrl-C. A thread that runs Python code when the interpreter ends is unwound by force, and other libraries' frames
    // on its stack abort the process then, as pyarrow's do. So sources are interrupted as well.
    interrupt_source_threads();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    try {
      blocking([&](const transport::InterruptHook& hook) {
        wait_for_sources([&] { return hook() || std::chrono::steady_clock::now() > limit; });
      });
    } catch (const InterruptedError&) {
    } catch (const nb::python_error&) {  // Ctrl-C again
    }
    // Intentional leak. The process ends without waiting for a source that may never return.
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
      .def_prop_rw("lease_patience_ms", nullptr,
                   [](ServerOptions& self, std::int64_t ms) { self.lease_patience = time_limit(ms); })
      .def_rw("max_leases", &ServerOptions::max_leases)
      .def_rw("max_streams", &ServerOptions::max_streams)
      .def_rw("max_connections", &ServerOptions::max_connections)
      .def_rw("source_threads", &ServerOptions::source_threads)
      .def_rw("limits", &ServerOptions::limits)
      .def_rw("stats_for_all", &ServerOptions::stats_for_all)
      .def_prop_rw("flight_uri", nullptr, [](ServerOptions& self, const std::string& uri) { self.flight.uri = uri; })
      .def_prop_rw("flight_puts", nullptr,
                   [](ServerOptions& self, const std::string& which) {
                     self.flight.puts = which == "replace" ? session::FlightPuts::kReplace : session::FlightPuts::kNew;
                   })
      .def_prop_rw("flight_max_put", nullptr,
                   [](ServerOptions& self, std::uint64_t bytes) { self.flight.max_put_bytes = bytes; })
      .def_prop_rw("flight_token", nullptr,
                   [](ServerOptions& self, const std::string& token) { self.flight.token = token; })
      .def_prop_rw("flight_tls", nullptr,
                   [](ServerOptions& self, const transport::TlsOptions& tls) { self.flight.tls = tls; })
      .def_prop_rw("flight_login", nullptr,
                   [](ServerOptions& self, nb::handle callable) { self.flight.login = login_of(callable); })
      .def_prop_rw(
          "flight_ticket_keys", nullptr,
          [](ServerOptions& self, const std::vector<nb::bytes>& keys) { self.flight.ticket_keys = keys_in(keys); })
      .def_prop_rw("flight_ticket_lifetime", nullptr,
                   [](ServerOptions& self, std::int64_t seconds) {
                     self.flight.ticket_lifetime = std::chrono::seconds(seconds);
                   })
      .def_prop_rw(
          "flight_login_lifetime", nullptr,
          [](ServerOptions& self, std::int64_t seconds) { self.flight.login_lifetime = std::chrono::seconds(seconds); })
      .def_prop_rw("wait", nullptr, [](ServerOptions& self, const std::string& name) { self.wait = wait_of(name); })
      .def_prop_rw("transports", nullptr, [](ServerOptions& self, const session::TransportOptions& options) {
        self.transports = session::make_transports(options);
      });
  module.def("check_server", &session::Server::check, "options"_a);
  // As if there were no Flight server: what check_server() finds besides is wrong with that.
  module.def(
      "check_uris",
      [](ServerOptions options) {
        options.flight = {};
        session::Server::check(options);
      },
      "options"_a);
  nb::class_<PyPrepared>(module, "Prepared");
  nb::class_<PyServer>(module, "Server")
      .def(nb::init<const ServerOptions&>(), "options"_a)
      .def_prop_ro("uri", &PyServer::uri)
      .def_prop_ro("uris", &PyServer::uris)
      .def_prop_ro("locations", &PyServer::locations)
      .def("location", &PyServer::location, "name"_a)
      .def_prop_ro("flight_uri", &PyServer::flight_uri)
      .def_prop_ro("closed", &PyServer::closed)
      .def("prepare_table", &PyServer::prepare_table, "name"_a, "producer"_a, "replace"_a, "times"_a)
      .def("prepare_tensor", &PyServer::prepare_tensor, "name"_a, "tensor"_a, "replace"_a, "times"_a)
      .def("prepare_tensors", &PyServer::prepare_tensors, "name"_a, "tensors"_a, "replace"_a, "times"_a)
      .def("prepare_live", &PyServer::prepare_live, "name"_a, "producer"_a, "replace"_a)
      .def("prepare_callable", &PyServer::prepare_callable, "name"_a, "callable"_a, "replace"_a)
      .def("prepare_file", &PyServer::prepare_file, "name"_a, "path"_a, "snapshot"_a, "replace"_a, "times"_a)
      .def("commit", &PyServer::commit, "sources"_a, "withdrawn"_a)
      .def("withdraw", &PyServer::withdraw, "name"_a)
      .def("replace_ticket_keys", &PyServer::replace_ticket_keys, "keys"_a)
      .def("stats", &PyServer::stats)
      .def("drain", &PyServer::drain, "timeout_ms"_a)
      .def("close", &PyServer::close);
}

}  // namespace crossdock::python
