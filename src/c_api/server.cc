#include "crossdock/c_api/server.h"

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/source_handle.h"
#include "c_api/stop_flag.h"
#include "c_api/transports.h"
#include "crossdock/core/error.h"
#include "crossdock/session/server.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace session = crossdock::session;

struct crossdock_server {
  crossdock_server(session::ServerOptions options, crossdock::transport::InterruptHook hook)
      : server(std::move(options)), interrupted(std::move(hook)) {}
  session::Server server;
  crossdock::transport::InterruptHook interrupted;
};

namespace {

/// Sets an option that isn't 0, which means the default that is there.
template <class Option, class Given>
void set(Option* option, Given given) {
  if (given != 0) *option = static_cast<Option>(given);
}

session::ServerOptions server_options(const crossdock_server_options& given) {
  session::ServerOptions options;
  if (given.n_uris != 0) options.uris = texts_of(given.uris, given.n_uris, "uris");
  options.transports = transports_of(given.transports);
  if (given.log != nullptr) {
    options.log = [log = given.log, user = given.log_user](crossdock::LogLevel level, std::string_view text) {
      log(user, static_cast<std::int32_t>(level), {text.data(), text.size()});
    };
  }
  set(&options.lease_limit, given.lease_limit);
  set(&options.max_leases, given.max_leases);
  if (given.lease_patience_ms != 0) options.lease_patience = time_limit(given.lease_patience_ms);
  set(&options.window, given.window);
  set(&options.max_streams, given.max_streams);
  set(&options.source_threads, given.source_threads);
  set(&options.max_connections, given.max_connections);
  options.wait = wait_of(given.wait);
  options.stats_for_all = given.stats_for_all != 0;
  return options;
}

session::PublishOptions publish_options(const crossdock_publish_options* given) {
  constexpr std::size_t kFirst = offsetof(crossdock_publish_options, replace) + sizeof(std::int64_t);
  const auto read = options_of(given, kFirst, "crossdock_publish_options");
  session::PublishOptions options;
  options.replace = read.replace != 0;
  options.times = read.times;
  return options;
}

/// Returns what a handle has, and frees the handle.
session::Source consume(crossdock_source** source) noexcept {
  const std::unique_ptr<crossdock_source> handle(std::exchange(*source, nullptr));
  return std::move(*handle->source);
}

void check_source(crossdock_source* const* source) { need(need(source, "source"), "*source"); }

}  // namespace

crossdock_status crossdock_serve(const crossdock_server_options* options, crossdock_server** server,
                                 crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_server*& out = result(server, "server");
    constexpr std::size_t kFirst = offsetof(crossdock_server_options, stats_for_all) + sizeof(std::int32_t);
    const auto given = options_of(options, kFirst, "crossdock_server_options");
    out = new crossdock_server(server_options(given), hook_of(given.stop));
  });
}

void crossdock_server_release(crossdock_server** server) { release(server); }

size_t crossdock_server_n_uris(const crossdock_server* server) {
  return server != nullptr ? server->server.uris().size() : 0;
}

const char* crossdock_server_uri(const crossdock_server* server, size_t index) {
  return index < crossdock_server_n_uris(server) ? server->server.uris()[index].c_str() : nullptr;
}

crossdock_status crossdock_server_publish(crossdock_server* server, crossdock_string name, crossdock_source** source,
                                          const crossdock_publish_options* options, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(server, "server");
    check_source(source);
    session::Source consumed = consume(source);
    server->server.publish(text_of(name, "name"), std::move(consumed), publish_options(options));
  });
}

crossdock_status crossdock_server_update(crossdock_server* server, const crossdock_publication* publications, size_t n,
                                         const crossdock_string* withdrawn, size_t n_withdrawn,
                                         const crossdock_publish_options* options, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(server, "server");
    constexpr std::size_t kFirst = offsetof(crossdock_publication, source) + sizeof(crossdock_source**);
    const auto given = structs_of(publications, n, kFirst, "publications", "crossdock_publication");
    std::set<const crossdock_source*> seen;
    for (const crossdock_publication& one : given) {
      check_source(one.source);
      if (seen.insert(*one.source).second) continue;
      throw crossdock::InvalidArgumentError("publications has the same source twice: it is consumed once");
    }
    const session::PublishOptions publish = publish_options(options);
    const std::vector<std::string> to_withdraw = texts_of(withdrawn, n_withdrawn, "withdrawn");
    std::vector<std::string> names;
    names.reserve(n);
    for (const crossdock_publication& one : given) names.push_back(text_of(one.name, "name"));
    std::vector<session::Prepared> prepared;
    prepared.reserve(n);
    // Nothing before this line has consumed a source.
    std::vector<session::Source> sources;
    sources.reserve(n);
    for (const crossdock_publication& one : given) sources.push_back(consume(one.source));
    for (std::size_t i = 0; i < n; ++i) {
      prepared.push_back(server->server.prepare(names[i], std::move(sources[i]), publish));
    }
    server->server.commit(std::move(prepared), to_withdraw);
  });
}

crossdock_status crossdock_server_withdraw(crossdock_server* server, crossdock_string name, crossdock_error** error) {
  return guarded(__func__, error, [&] { need(server, "server").server.withdraw(text_of(name, "name")); });
}

crossdock_status crossdock_server_drain(crossdock_server* server, int64_t timeout_ms, int32_t* drained,
                                        crossdock_error** error) {
  return guarded(__func__, error, [&] {
    if (drained != nullptr) *drained = 0;
    need(server, "server");
    const bool ended = server->server.drain(time_limit(timeout_ms), server->interrupted);
    if (drained != nullptr) *drained = ended ? 1 : 0;
  });
}

crossdock_status crossdock_server_close(crossdock_server* server, crossdock_error** error) {
  return guarded(__func__, error, [&] { need(server, "server").server.close(server->interrupted); });
}
