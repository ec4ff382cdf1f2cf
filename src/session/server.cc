#include "crossdock/session/server.h"

#include <algorithm>
#include <utility>

#include "core/fork.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/catalog.h"
#include "session/io_loop.h"
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

struct Server::Impl {
  explicit Impl(ServerOptions given)
      : options(std::move(given)),
        catalog(options, need_sealed_files(options)),
        loop(options, *options.transports, catalog) {}

  ForkGuard made_in;
  ServerOptions options;
  Catalog catalog;
  IoLoop loop;
};

Server::Server(ServerOptions options) {
  if (options.window == 0) throw InvalidArgumentError("window must be at least 1 message");
  if (options.lease_limit == 0) throw InvalidArgumentError("lease_limit must be at least 1 byte");
  if (options.max_leases == 0) throw InvalidArgumentError("max_leases must be at least 1 buffer");
  if (options.max_streams == 0) throw InvalidArgumentError("max_streams must be at least 1 stream");
  if (options.source_threads == 0) throw InvalidArgumentError("source_threads must be at least 1 thread");
  if (options.uris.empty()) throw InvalidArgumentError("a server needs at least one URI to listen at");
  if (!options.runtime) options.runtime = Runtime::default_runtime();
  if (!options.transports) options.transports = make_transports();
  impl_ = std::make_unique<Impl>(std::move(options));
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

std::string Server::location(const std::string& name) {
  impl_->made_in.check("this Server");
  return impl_->loop.location(impl_->catalog.region_of(name));
}

void Server::publish(const std::string& name, Source source, const PublishOptions& options) {
  impl_->made_in.check("this Server");
  if (const auto file = impl_->catalog.publish(name, std::move(source), options)) impl_->loop.watch(file);
}

void Server::withdraw(const std::string& name) {
  impl_->made_in.check("this Server");
  impl_->catalog.withdraw(name);
}

ServerStats Server::stats() const {
  impl_->made_in.check("this Server");
  ServerStats stats = impl_->loop.stats();
  impl_->catalog.add_stats(&stats);
  return stats;
}

void Server::close(const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Server");
  impl_->catalog.close();
  impl_->loop.close();
  impl_->catalog.wait_for_sources(interrupted);
}

}  // namespace crossdock::session
