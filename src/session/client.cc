#include "crossdock/session/client.h"

#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/dissociated/uri.h"
#include "session/catalogue.h"
#include "session/client_pool.h"
#include "session/reader_impl.h"

namespace crossdock::session {

struct Client::Impl {
  std::shared_ptr<ClientPool> pool;
};

Client::Client(const std::string& uri, ClientOptions options, transport::InterruptHook interrupted) {
  const dissociated::Uri parsed = dissociated::parse_uri(uri);
  if (parsed.scheme != "shm") {
    throw SchemeError("scheme \"" + parsed.scheme + "\" in \"" + uri + "\" has no transport in this version; use shm:");
  }
  if (parsed.address.empty())
    throw UriError("\"" + uri + "\" names no socket; take the server's full URI (server.uri)");
  if (parsed.role != dissociated::StreamRole::kBoth) {
    throw SchemeError("\"" + uri + "\" is for one of two connections; over shm one carries metadata and data");
  }
  auto pool = std::make_shared<ClientPool>(parsed.address, "shm:" + parsed.address, std::move(options));
  // Connecting now, not at the first get(), is what shows a wrong address where it was written.
  auto first = pool->take(interrupted);
  const transport::Agreement& agreement = first->transport().agreement();
  if ((parsed.want_data && *parsed.want_data != agreement.want_data) ||
      (parsed.free_data && *parsed.free_data != agreement.free_data)) {
    throw HandshakeError("the server at shm:" + parsed.address + " has other want_data and free_data values than \"" +
                         uri + "\": that URI is of a server that has gone");
  }
  pool->put_back(std::move(first));
  impl_ = std::make_unique<Impl>(Impl{std::move(pool)});
}

Client::~Client() {
  if (!impl_->pool->made_in().in_child()) close();
}

std::vector<CatalogueEntry> Client::list(const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  GetOptions options;
  options.timeout_ms = impl_->pool->options().timeout_ms;
  Reader::Impl reader(impl_->pool, "", options, interrupted);
  std::vector<CatalogueEntry> entries;
  while (const std::optional<array::RecordBatch> batch = reader.next()) read_catalogue(*batch, &entries);
  return entries;
}

std::unique_ptr<Reader> Client::get(const std::string& name, const GetOptions& options,
                                    const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  if (name.empty()) throw InvalidArgumentError("a stream's name can't be empty; list() gives the catalogue");
  return std::unique_ptr<Reader>(new Reader(std::make_unique<Reader::Impl>(impl_->pool, name, options, interrupted)));
}

void Client::close() {
  impl_->pool->made_in().check("this Client");
  impl_->pool->close();
}

}  // namespace crossdock::session
