#include "crossdock/session/server.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/fork.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/catalog.h"
#include "session/flight/server.h"
#include "session/io_loop.h"
#include "session/server_options.h"
#include "transport/registry.h"

namespace crossdock::session {

namespace {

// Whether files are sent as sealed copies to clients of any of the addresses to listen at.
bool need_sealed_files(const ServerOptions& options) {
  return std::ranges::any_of(options.uris, [&](const std::string& uri) {
    return options.transports->find(dissociated::parse_uri(uri).scheme)->needs_sealed_files();
  });
}

}  // namespace

flight::Access access_of(const FlightOptions& options, const std::shared_ptr<flight::TicketKeys>& keys) {
  return {.token = options.token,
          .login = options.login,
          .keys = keys,
          .ticket_lifetime_s = options.ticket_lifetime.count(),
          .login_lifetime_s = options.login_lifetime.count()};
}

struct Server::Impl {
  explicit Impl(ServerOptions given)
      : options(std::move(given)),
        keys(std::make_shared<flight::TicketKeys>(options.flight.ticket_keys)),
        access(access_of(options.flight, keys)),
        catalog(options, access, need_sealed_files(options)),
        flight(options.flight.uri.empty() ? nullptr
                                          : std::make_unique<FlightServer>(options, access, catalog, publisher())),
        loop(options, *options.transports, catalog, flight ? flight->listener() : nullptr) {
    if (flight) flight->start(loop.locations(), loop.offers_reads() ? own_location() : nullptr);
  }

  /// Finds where the memory of one table can be read with a key of its own.
  flight::Service::OwnLocation own_location() {
    return [this](const std::string& name) {
      try {
        return loop.location(catalog.region_of(name));
      } catch (const Error&) {
        return std::string();  // no one key covers it, or the server is being closed
      }
    };
  }

  /// Publishes tables that clients send.
  Puts::Publish publisher() {
    return [this](const std::string& name, Source source, bool replace) {
      catalog.publish(name, std::move(source), {.replace = replace});
    };
  }

  ForkGuard made_in;
  ServerOptions options;
  const std::shared_ptr<flight::TicketKeys> keys;
  const flight::Access access;
  Catalog catalog;
  std::unique_ptr<FlightServer> flight;  // null: none
  IoLoop loop;
};

Server::Server(ServerOptions options) {
  if (!options.runtime) options.runtime = Runtime::default_runtime();
  if (!options.transports) options.transports = make_transports();
  check(options);
  impl_ = std::make_unique<Impl>(std::move(options));
}

void Server::check(const ServerOptions& options) {
  check_options(options);
  static_cast<void>(flight::TicketKeys(options.flight.ticket_keys));
  if (!options.flight.uri.empty()) FlightServer::check(options.flight);
  const auto transports = options.transports ? options.transports : make_transports();
  check_uris(options.uris, *transports);
}

Server::~Server() {
  if (impl_->made_in.in_child()) {
    // The thread, the socket and the leases belong to the parent. The child can't even destroy its copies of them.
    [[maybe_unused]] const auto* left = impl_.release();
    return;
  }
  close();
}

const std::string& Server::uri() const noexcept { return impl_->loop.uris().front(); }
const std::vector<std::string>& Server::uris() const noexcept { return impl_->loop.uris(); }
const std::vector<std::string>& Server::locations() const noexcept { return impl_->loop.locations(); }

const std::string& Server::flight_uri() const noexcept {
  static const std::string none;
  return impl_->flight ? impl_->flight->uri() : none;
}

std::string Server::location(const std::string& name) {
  impl_->made_in.check("this Server");
  return impl_->loop.location(impl_->catalog.region_of(name));
}

struct Prepared::Impl {
  Catalog::Prepared source;
};
Prepared::Prepared(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Prepared::Prepared(Prepared&& other) noexcept = default;
Prepared& Prepared::operator=(Prepared&& other) noexcept = default;
Prepared::~Prepared() = default;

void Server::publish(const std::string& name, Source source, const PublishOptions& options) {
  std::vector<Prepared> one;
  one.push_back(prepare(name, std::move(source), options));
  commit(std::move(one));
}

Prepared Server::prepare(const std::string& name, Source source, const PublishOptions& options) {
  impl_->made_in.check("this Server");
  return Prepared(
      std::make_unique<Prepared::Impl>(Prepared::Impl{impl_->catalog.prepare(name, std::move(source), options)}));
}

void Server::commit(std::vector<Prepared> sources, const std::vector<std::string>& withdrawn) {
  impl_->made_in.check("this Server");
  std::vector<Catalog::Prepared> prepared;
  std::vector<std::shared_ptr<const PublishedTable>> files;  // may change while they are published
  for (const Prepared& source : sources) {
    if (!source.impl_) throw InvalidArgumentError("a prepared source can be published once");
    const auto& table = source.impl_->source.table();
    if (table && std::string_view(table->kind) == "file") files.push_back(table);
    prepared.push_back(source.impl_->source);
  }
  impl_->catalog.commit(std::move(prepared), withdrawn);
  impl_->loop.watch(files);
}

void Server::withdraw(const std::string& name) {
  impl_->made_in.check("this Server");
  impl_->catalog.withdraw(name);
}

void Server::replace_ticket_keys(const std::vector<std::string>& keys) {
  impl_->made_in.check("this Server");
  if (!impl_->access.asks()) {
    throw InvalidArgumentError(
        "this server signs no tickets: it has no Flight server that asks for a token or a login");
  }
  impl_->keys->replace(keys);
}

ServerStats Server::stats() const {
  impl_->made_in.check("this Server");
  return impl_->loop.stats();
}

bool Server::drain(const TimeLimit& timeout, const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Server");
  if (!timeout && impl_->catalog.on_source_thread()) {
    throw InvalidArgumentError(
        "a source can't wait without a limit of time until the server that reads it is drained, because that waits for "
        "the source; give a timeout, or drain the server in another thread");
  }
  impl_->catalog.refuse_requests();
  return impl_->loop.drain(to_ms(timeout), interrupted);
}

void Server::close(const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Server");
  if (impl_->flight && impl_->flight->checks_login()) {
    throw InvalidArgumentError(
        "a check of a login can't close the server that waits for it: close the server in another thread");
  }
  impl_->catalog.close();
  impl_->loop.close();
  if (impl_->flight) impl_->flight->stop();
  impl_->catalog.wait_for_sources(interrupted);
}

}  // namespace crossdock::session
