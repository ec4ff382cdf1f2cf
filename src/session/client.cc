#include "crossdock/session/client.h"

#include <utility>

#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/catalog_table.h"
#include "session/client_pool.h"
#include "session/reader_impl.h"

namespace crossdock::session {

struct Client::Impl {
  std::shared_ptr<ClientPool> pool;  // metadata, and bodies unless data_pool is set
  std::shared_ptr<ClientPool> data_pool;
  std::shared_ptr<ClientPool> catalog_pool;
};

namespace {

std::shared_ptr<ClientPool> make_pool(const std::string& text, ChannelRole role, const ClientOptions& options) {
  dissociated::Uri uri = dissociated::parse_uri(text);
  if (role == ChannelRole::kBoth && uri.role != ChannelRole::kBoth) {
    throw UriError("\"" + text + "\" is for one of two connections: give both URIs, metadata and data");
  }
  if ((role == ChannelRole::kMetadata && uri.role == ChannelRole::kData) ||
      (role == ChannelRole::kData && uri.role == ChannelRole::kMetadata)) {
    throw UriError("\"" + text + "\" was given for the " + (role == ChannelRole::kData ? "data" : "metadata") +
                   ", but its stream= is the other one");
  }
  return std::make_shared<ClientPool>(uri, transport::ConnectOptions{.role = role}, text, options);
}

// Connects at once instead of at the first get(): so a wrong address throws where it was given.
void try_out(ClientPool& pool, const transport::InterruptHook& interrupted) { pool.put_back(pool.take(interrupted)); }

ClientOptions with_transports(ClientOptions options) {
  if (!options.transports) options.transports = make_transports();
  if (!options.runtime) options.runtime = Runtime::default_runtime();
  return options;
}

}  // namespace

Client::Client(const std::string& uri, ClientOptions options, const transport::InterruptHook& interrupted) {
  options = with_transports(std::move(options));
  auto pool = make_pool(uri, ChannelRole::kBoth, options);
  try_out(*pool, interrupted);
  impl_ = std::make_unique<Impl>(Impl{pool, nullptr, pool});
}

Client::Client(const std::string& metadata_uri, const std::string& data_uri, ClientOptions options,
               const transport::InterruptHook& interrupted) {
  options = with_transports(std::move(options));
  auto data = make_pool(data_uri, ChannelRole::kData, options);
  // The way is that of bodies. The other connections carry none, but for the catalog's.
  options.way.reset();
  auto metadata = make_pool(metadata_uri, ChannelRole::kMetadata, options);
  try_out(*metadata, interrupted);
  try_out(*data, interrupted);
  // The catalog is read over a single connection.
  dissociated::Uri uri = dissociated::parse_uri(metadata_uri);
  auto catalog = std::make_shared<ClientPool>(uri, transport::ConnectOptions{}, metadata_uri, options);
  impl_ = std::make_unique<Impl>(Impl{std::move(metadata), std::move(data), std::move(catalog)});
}

Client::~Client() {
  if (!impl_->pool->made_in().in_child()) close();
}

std::vector<CatalogEntry> Client::list(const ListOptions& options, const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  GetOptions how;
  how.timeout_ms = impl_->pool->options().timeout_ms;
  Reader::Impl reader(impl_->catalog_pool, nullptr, "", how, interrupted);
  CatalogReader catalog(*reader.schema, options);
  std::optional<array::RecordBatch> batch;
  while (reader.advance(true, &batch), batch) catalog.read(*batch);
  std::vector<CatalogEntry> entries = catalog.take();
  // The server answers for the connection of the catalog, which isn't the one that bodies come by.
  if (impl_->data_pool) {
    for (CatalogEntry& entry : entries) {
      entry.way.reset();
      entry.why.clear();
    }
  }
  return entries;
}

std::unique_ptr<Reader> Client::get(const std::string& name, const GetOptions& options,
                                    const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  if (name.empty()) throw InvalidArgumentError("a stream's name can't be empty; list() gives the catalog");
  std::shared_ptr<device::Context> device;
  if (options.device && !device::host_reaches(options.device->type)) {
    const auto& drivers = impl_->pool->options().runtime->drivers();
    // Throws with the advice that fits here if there is no driver.
    drivers->for_type(options.device->type, "leave device out, to get the table on the host");
    device = drivers->context(*options.device);
  }
  const auto pool = [&](const std::shared_ptr<ClientPool>& all) {
    return all == nullptr ? nullptr : all->for_streams(!options.all_columns, device, options.copy_on_write);
  };
  return std::make_unique<Reader>(
      std::make_unique<Reader::Impl>(pool(impl_->pool), pool(impl_->data_pool), name, options, interrupted));
}

bool Client::drop_ended() {
  impl_->pool->made_in().check("this Client");
  bool any = impl_->pool->drop_ended();
  if (impl_->data_pool) {
    any |= impl_->data_pool->drop_ended();
    any |= impl_->catalog_pool->drop_ended();
  }
  return any;
}

void Client::close() {
  impl_->pool->made_in().check("this Client");
  impl_->pool->close();
  if (impl_->data_pool) impl_->data_pool->close();
  impl_->catalog_pool->close();
}

}  // namespace crossdock::session
