#include "crossdock/session/client.h"

#include <functional>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "dissociated/uri.h"
#include "session/batch_layout.h"
#include "session/catalog_table.h"
#include "session/client_pool.h"
#include "session/flight/finder.h"
#include "session/flight/transport.h"
#include "session/reader_impl.h"
#include "session/statistics_stream.h"
#include "session/statistics_text.h"
#include "session/table_name.h"
#include "session/tensor_reader.h"
#include "transport/registry.h"

namespace crossdock::session {

struct Client::Impl {
  std::shared_ptr<ClientPool> pool;  // metadata, and bodies unless data_pool is set
  std::shared_ptr<ClientPool> data_pool;
  std::shared_ptr<ClientPool> catalog_pool;
  std::unique_ptr<FlightFinder> flight{};  // of a Flight server, whose DoGet `pool` is for; else null

  /// The connections for one stream.
  struct Pools {
    std::shared_ptr<ClientPool> metadata, data;
  };
  std::unique_ptr<Reader::Impl> get(const std::string& name, const GetOptions& options,
                                    const transport::InterruptHook& interrupted) const;
  std::unique_ptr<Reader> get_rows(Client* client, const std::string& name, const GetOptions& options,
                                   const transport::InterruptHook& interrupted) const;
  /// Requests a stream by the connections for it, with a ticket.
  using Request = std::function<void(Pools pools, const std::string& ticket)>;
  /// Calls `request` with the connections for a stream with these options; of a Flight server, for one location after
  /// the other, and returns those that were passed over. Throws if the name is empty, or the device has no driver.
  std::vector<LocationTried> request(const std::string& name, bool parts, const std::optional<device::Device>& device,
                                     bool copy_on_write, const Request& request,
                                     const transport::InterruptHook& interrupted) const;
};

namespace {

std::shared_ptr<ClientPool> make_pool(const std::string& text, ChannelRole role, const ClientOptions& options) {
  dissociated::Uri uri = dissociated::parse_uri(text);
  if (role == ChannelRole::kBoth && uri.role != ChannelRole::kBoth) {
    throw UriError("\"" + excerpt(text) + "\" is for one of two connections: give both URIs, metadata and data");
  }
  if ((role == ChannelRole::kMetadata && uri.role == ChannelRole::kData) ||
      (role == ChannelRole::kData && uri.role == ChannelRole::kMetadata)) {
    throw UriError("\"" + excerpt(text) + "\" was given for the " + (role == ChannelRole::kData ? "data" : "metadata") +
                   ", but its stream= is the other one");
  }
  return std::make_shared<ClientPool>(uri, transport::ConnectOptions{.role = role}, text, options);
}

/// How often a table's rows are asked for if it is replaced each time between the statistics and the data.
constexpr int kMostTries = 8;

ClientOptions with_transports(ClientOptions options) {
  if (!options.transports) options.transports = make_transports();
  if (!options.runtime) options.runtime = Runtime::default_runtime();
  return options;
}

}  // namespace

Client::Client(const std::string& uri, ClientOptions options, const transport::InterruptHook& interrupted) {
  options = with_transports(std::move(options));
  auto pool = make_pool(uri, ChannelRole::kBoth, options);
  impl_ = std::make_unique<Impl>(Impl{pool, nullptr, pool});
  const dissociated::Uri parsed = dissociated::parse_uri(uri);
  const auto* const flight = dynamic_cast<const FlightTransport*>(options.transports->find(parsed.scheme).get());
  if (flight == nullptr) {
    pool->try_out(interrupted);
    return;
  }
  impl_->flight = std::make_unique<FlightFinder>(flight->channel(parsed.address), std::move(pool), std::move(options));
  impl_->flight->check(interrupted);
}

Client::Client(const std::string& metadata_uri, const std::string& data_uri, ClientOptions options,
               const transport::InterruptHook& interrupted) {
  options = with_transports(std::move(options));
  auto data = make_pool(data_uri, ChannelRole::kData, options);
  // The way is that of bodies. The other connections carry none, but for the catalog's.
  options.way.reset();
  auto metadata = make_pool(metadata_uri, ChannelRole::kMetadata, options);
  metadata->try_out(interrupted);
  data->try_out(interrupted);
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
  if (impl_->flight) return impl_->flight->list(options, interrupted);
  GetOptions how;
  how.timeout = impl_->pool->options().timeout;
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

ServerStats Client::server_stats(const transport::InterruptHook& interrupted) {
  const std::shared_ptr<ClientPool>& pool = impl_->catalog_pool;
  pool->made_in().check("this Client");
  if (impl_->flight) {
    throw UnsupportedError("statistics don't go by Flight: connect to another URI of " + pool->where());
  }
  const auto unknown = [&] {
    return UnsupportedError(pool->where() +
                            " doesn't know the request for statistics: it is an earlier version of "
                            "Crossdock, or another server");
  };
  // A server without error messages would end the connection.
  auto connection = pool->take(interrupted);
  const bool is_ours = connection->transport().agreement().error_messages;
  pool->put_back(std::move(connection));
  if (!is_ours) throw unknown();
  GetOptions how;
  how.timeout = pool->options().timeout;
  how.limits.max_metadata_bytes = kMostStatisticsText;
  try {
    Reader::Impl reader(pool, nullptr, std::string(kStatisticsTicket), how, interrupted);
    const std::string* const text = statistics_text_in(*reader.schema);
    std::optional<array::RecordBatch> batch;
    if (text == nullptr || !reader.schema->fields().empty() || (reader.advance(true, &batch), batch)) {
      throw InvalidDataError(pool->where() + " answered the request for statistics with a table");
    }
    return statistics_in(*text);
  } catch (const NotFoundError&) {
    throw unknown();
  }
}

std::vector<LocationTried> Client::Impl::request(const std::string& name, bool parts,
                                                 const std::optional<device::Device>& wanted, bool copy_on_write,
                                                 const Request& request,
                                                 const transport::InterruptHook& interrupted) const {
  pool->made_in().check("this Client");
  if (name.empty()) throw InvalidArgumentError("a stream's name can't be empty; list() gives the catalog");
  std::shared_ptr<device::Context> device;
  if (wanted && !device::host_reaches(wanted->type)) {
    const auto& drivers = pool->options().runtime->drivers();
    // Throws with the advice that fits here if there is no driver.
    drivers->for_type(wanted->type, "leave device out, to get the data on the host");
    device = drivers->context(*wanted);
  }
  if (flight) {
    const auto from = [&](const std::shared_ptr<ClientPool>& at, const std::string& ticket) {
      request({at, nullptr}, ticket);
    };
    return flight->find(name, {parts, device, copy_on_write}, from, interrupted);
  }
  const auto chosen = [&](const std::shared_ptr<ClientPool>& all) {
    return all == nullptr ? nullptr : all->for_streams(parts, device, copy_on_write);
  };
  request({chosen(pool), chosen(data_pool)}, name);
  return {};
}

std::unique_ptr<Reader> Client::get(const std::string& name, const GetOptions& options,
                                    const transport::InterruptHook& interrupted) {
  if (options.rows) return impl_->get_rows(this, name, options, interrupted);
  return std::make_unique<Reader>(impl_->get(name, options, interrupted));
}

std::unique_ptr<Reader::Impl> Client::Impl::get(const std::string& name, const GetOptions& options,
                                                const transport::InterruptHook& interrupted) const {
  std::unique_ptr<Reader::Impl> reader;
  const auto begin = [&](Pools from, const std::string& ticket) {
    reader =
        std::make_unique<Reader::Impl>(std::move(from.metadata), std::move(from.data), ticket, options, interrupted);
  };
  std::vector<LocationTried> tried =
      request(name, options.columns.has_value(), options.device, options.copy_on_write, begin, interrupted);
  reader->tried = std::move(tried);
  return reader;
}

std::unique_ptr<Reader> Client::batch_statistics(const std::string& name, std::vector<std::string> columns,
                                                 const TimeLimit& timeout,
                                                 const transport::InterruptHook& interrupted) {
  GetOptions options;
  options.timeout = timeout;
  options.batch_statistics = std::move(columns);
  bool unknown = false;  // a Flight server's location may know what its DoGet doesn't
  std::unique_ptr<Reader::Impl> reader;
  const auto begin = [&](Impl::Pools from, const std::string& ticket) {
    try {
      // Over two connections it is the first server's word.
      auto& pool = from.data ? impl_->catalog_pool : from.metadata;
      reader = std::make_unique<Reader::Impl>(pool, nullptr, ticket, options, interrupted);
    } catch (const ParametersUnknown&) {
      unknown = true;
      throw;
    }
  };
  try {
    impl_->request(name, false, {}, false, begin, interrupted);
  } catch (const UnsupportedError&) {
    if (unknown) return nullptr;
    throw;
  }
  return std::make_unique<Reader>(std::move(reader));
}

std::unique_ptr<Reader> Client::Impl::get_rows(Client* client, const std::string& name, const GetOptions& given,
                                               const transport::InterruptHook& interrupted) const {
  if (given.batches) throw InvalidArgumentError("give rows or batches, not both");
  GetOptions options = given;
  options.rows.reset();
  for (int tries = 0; tries < kMostTries; ++tries) {
    RowRange trim = *given.rows;
    std::uint64_t all = 0;
    std::int64_t version = -1;
    // A server that doesn't know such requests sends everything.
    if (const auto statistics = client->batch_statistics(name, {}, given.timeout, interrupted)) {
      version = statistics->version();
      // Nothing but its version ties data to what was said of it.
      if (version >= 0) options.batches = batches_of(*statistics, &trim, &all);
    }
    std::unique_ptr<Reader::Impl> reader = get(name, options, interrupted);
    if (options.batches && reader->version != version) continue;
    reader->trim = trim;
    if (options.batches) reader->rows_to_come = all;
    return std::make_unique<Reader>(std::move(reader));
  }
  throw TimeoutError(shown(name) + " was replaced " + std::to_string(kMostTries) +
                     " times, each time before its rows could be requested: try again");
}

namespace {

/// Checks TensorOptions::out, and waits for what is pending on it. Returns it as memory with nothing pending.
array::Tensor ready_out(array::Tensor out, const TensorOptions& options, const Runtime& runtime) {
  if (out.read_only) throw InvalidArgumentError("the memory to receive a tensor in is read-only");
  if (out.mask) throw InvalidArgumentError("the memory to receive a tensor in has a mask");
  if (options.device && *options.device != out.device) {
    throw InvalidArgumentError("the memory to receive a tensor in is on " + device::to_string(out.device) +
                               ", but the tensor is wanted on " + device::to_string(*options.device));
  }
  if (options.copy_on_write) throw InvalidArgumentError("copy on write is for memory of the server's, not for `out`");
  if (!device::host_reaches(out.device.type) && !out.c_contiguous()) {
    throw InvalidArgumentError("the memory to receive a tensor in is on " + device::to_string(out.device) +
                               ", where it must be in C order without gaps");
  }
  if (!out.ready()) exchange::wait_for(out, *runtime.drivers(), exchange::wait_in_driver);
  exchange::forget_work(&out);
  return out;
}

}  // namespace

array::Tensor Client::tensor(const std::string& name, const TensorOptions& given,
                             const transport::InterruptHook& interrupted) {
  TensorOptions options = given;
  array::Tensor out;
  if (given.out != nullptr) {
    out = ready_out(*given.out, given, *impl_->pool->options().runtime);
    options.out = &out;
    options.device = out.device;
  }
  std::unique_ptr<TensorReader> reader;
  const auto request = [&](Impl::Pools from, const std::string& ticket) {
    reader =
        std::make_unique<TensorReader>(std::move(from.metadata), std::move(from.data), ticket, options, interrupted);
  };
  impl_->request(name, false, options.device, options.copy_on_write, request, interrupted);
  array::Tensor tensor = read_tensor(reader.get(), name);
  if (options.bytes_copied != nullptr) *options.bytes_copied += reader->bytes_copied();
  if (options.version != nullptr) *options.version = reader->version();
  return given.out != nullptr ? *given.out : tensor;
}

std::vector<NamedTensor> Client::tensors(const std::string& name, const TensorOptions& options,
                                         const transport::InterruptHook& interrupted) {
  if (options.out != nullptr) throw InvalidArgumentError("`out` is for one tensor: tensor() receives into it");
  std::unique_ptr<TensorReader> reader;
  const auto request = [&](Impl::Pools from, const std::string& ticket) {
    reader =
        std::make_unique<TensorReader>(std::move(from.metadata), std::move(from.data), ticket, options, interrupted);
  };
  impl_->request(name, false, options.device, options.copy_on_write, request, interrupted);
  std::vector<NamedTensor> all = read_tensors(reader.get(), name);
  if (options.bytes_copied != nullptr) *options.bytes_copied += reader->bytes_copied();
  if (options.version != nullptr) *options.version = reader->version();
  return all;
}

void Client::put(const std::string& name, array::BatchStream& source, bool replace, const exchange::WaitFunction& wait,
                 const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  if (!impl_->flight) {
    throw UnsupportedError("tables are sent to Flight servers: connect to grpc://HOST:PORT, instead of " +
                           impl_->pool->where());
  }
  impl_->flight->put(name, source, replace, wait, interrupted);
}

void Client::offer(const std::string& name, std::unique_ptr<array::BatchStream> source, bool replace,
                   const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted) {
  impl_->pool->made_in().check("this Client");
  if (!impl_->flight) {
    throw UnsupportedError("tables are offered to Flight servers: connect to grpc://HOST:PORT, instead of " +
                           impl_->pool->where());
  }
  impl_->flight->offer(name, std::move(source), replace, wait, interrupted);
}

bool Client::drop_ended() {
  impl_->pool->made_in().check("this Client");
  if (impl_->flight) return impl_->flight->drop_ended();
  bool any = impl_->pool->drop_ended();
  if (impl_->data_pool) {
    any |= impl_->data_pool->drop_ended();
    any |= impl_->catalog_pool->drop_ended();
  }
  return any;
}

void Client::close() {
  impl_->pool->made_in().check("this Client");
  if (impl_->flight) return impl_->flight->close();
  impl_->pool->close();
  if (impl_->data_pool) impl_->data_pool->close();
  impl_->catalog_pool->close();
}

}  // namespace crossdock::session
