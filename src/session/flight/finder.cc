#include "session/flight/finder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/milliseconds.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "flight/service.h"
#include "ipc/metadata.h"
#include "session/flight/location.h"
#include "session/flight/offer.h"
#include "session/flight/put.h"

namespace crossdock::session {
namespace {

// A server may hand out very many locations; the connections to the last ones are kept.
constexpr std::size_t kMostPools = 64;
constexpr std::size_t kMostTried = 32;
// One location may take this long; all together, the client's timeout.
constexpr std::chrono::seconds kMostPerLocation{2};

/// The schema of a FlightInfo; null if it has none, or has types that aren't known.
std::shared_ptr<const array::Schema> schema_in(const flight::FlightInfo& info) {
  if (info.schema.empty()) return nullptr;
  constexpr const char* kWhere = "the schema of a FlightInfo";
  try {
    const ByteSpan message = flight::decapsulated(info.schema, kWhere);
    return ipc::Message::parse(message, {}, kWhere).schema_info().schema;
  } catch (const UnsupportedTypeError&) {
    return nullptr;
  }
}

/// Whether another location may be tried after this error.
bool may_go_on(const Error& error) {
  return error.code() != ErrorCode::kInterrupted && error.code() != ErrorCode::kFork &&
         error.code() != ErrorCode::kInvalidArgument;
}

/// Whether the error is about the way to the server, and not about the table.
bool is_of_the_way(const Error& error) {
  return error.code() == ErrorCode::kConnection || error.code() == ErrorCode::kTruncatedStream ||
         error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kUnsupported ||
         error.code() == ErrorCode::kProtocol || error.code() == ErrorCode::kHandshake;
}

std::string list_of(const std::vector<LocationTried>& tried) {
  std::string text;
  for (const LocationTried& one : tried) text += "\n  " + shown(one.location) + ": " + one.why;
  return text;
}

}  // namespace

FlightFinder::FlightFinder(std::shared_ptr<FlightChannel> channel, std::shared_ptr<ClientPool> pool,
                           ClientOptions options)
    : channel_(std::move(channel)), do_get_(std::move(pool)), options_(std::move(options)) {}

void FlightFinder::check_open() const {
  if (closed_.load(std::memory_order_relaxed)) throw ClosedError("this client of " + channel_->where() + " was closed");
}

void FlightFinder::check(const transport::InterruptHook& interrupted) {
  try {
    channel_->ask("ListActions", {}, to_ms(options_.timeout), interrupted);
  } catch (const UnsupportedError&) {
    // It answers, and has no actions.
  }
}

std::vector<CatalogEntry> FlightFinder::list(const ListOptions& limits, const transport::InterruptHook& interrupted) {
  check_open();
  const std::vector<flight::Bytes> infos =
      channel_->ask("ListFlights", flight::encode(flight::Criteria{}), to_ms(options_.timeout), interrupted);
  if (infos.size() > limits.max_entries) {
    throw ResourceError("the catalog of " + channel_->where() + " has " + std::to_string(infos.size()) +
                        " entries, over the limit of " + std::to_string(limits.max_entries) +
                        " (ListOptions::max_entries)");
  }
  std::uint64_t bytes = 0;
  std::vector<CatalogEntry> entries;
  for (const flight::Bytes& message : infos) {
    bytes += message.size();
    if (bytes > limits.max_bytes) {
      throw ResourceError("the catalog of " + channel_->where() + " is over the limit of " +
                          std::to_string(limits.max_bytes) + " bytes (ListOptions::max_bytes)");
    }
    const flight::FlightInfo info = flight::decode_info(message);
    const std::optional<std::string> name = info.descriptor ? flight::name_of(*info.descriptor) : std::nullopt;
    if (!name) continue;  // a path of several parts, for example, is no name for get()
    CatalogEntry entry;
    entry.name = *name;
    entry.schema = schema_in(info);
    entry.rows = std::max<std::int64_t>(info.records, -1);
    entry.bytes = std::max<std::int64_t>(info.bytes, -1);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::shared_ptr<ClientPool> FlightFinder::pool_at(const std::string& location) {
  std::shared_ptr<ClientPool> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto known = pools_.find(location);
  if (known != pools_.end()) return known->second;
  ClientOptions options = options_;
  if (!options.timeout || *options.timeout > kMostPerLocation) options.timeout = kMostPerLocation;
  auto pool =
      std::make_shared<ClientPool>(dissociated::parse_uri(location), transport::ConnectOptions{}, location, options);
  if (pools_.size() >= kMostPools) {
    dropped = std::move(pools_.begin()->second);
    pools_.erase(pools_.begin());
  }
  pools_.emplace(location, pool);
  return pool;
}

std::vector<LocationTried> FlightFinder::find(const std::string& name, const Needs& needs, const Request& request,
                                              const transport::InterruptHook& interrupted) {
  check_open();
  const flight::FlightEndpoint endpoint = endpoint_of(name, interrupted);
  try {
    return read_from(endpoint, needs, request, interrupted);
  } catch (const PermissionError&) {
    // The server may have been started again, or sign with another key, since it made the ticket.
    return read_from(endpoint_of(name, interrupted), needs, request, interrupted);
  }
}

flight::FlightEndpoint FlightFinder::endpoint_of(const std::string& name, const transport::InterruptHook& interrupted) {
  const std::vector<flight::Bytes> answers =
      channel_->ask("GetFlightInfo", flight::encode(flight::descriptor_of(name)), to_ms(options_.timeout), interrupted);
  if (answers.size() != 1) {
    throw ProtocolError(channel_->where() + " answered GetFlightInfo with " + std::to_string(answers.size()) +
                        " messages");
  }
  flight::FlightInfo info = flight::decode_info(answers.front());
  if (info.endpoints.size() != 1) {
    throw UnsupportedError(shown(name) + " of " + channel_->where() + " has " + std::to_string(info.endpoints.size()) +
                           " endpoints, and this version reads tables of one");
  }
  return std::move(info.endpoints.front());
}

std::vector<LocationTried> FlightFinder::read_from(const flight::FlightEndpoint& endpoint, const Needs& needs,
                                                   const Request& request,
                                                   const transport::InterruptHook& interrupted) {
  const auto start = std::chrono::steady_clock::now();
  const std::string ticket(as_text(endpoint.ticket.ticket));
  const LocationRules rules{channel_->host(), channel_->encrypted(), options_.any_location};
  std::vector<LocationTried> tried;
  const auto note = [&](const std::string& location, std::string why) { tried.push_back({location, std::move(why)}); };
  for (const std::string& location : by_cost(endpoint.locations)) {
    const std::string objection = why_not(location, rules, *options_.transports);
    if (!objection.empty()) {
      note(location, objection);
      continue;
    }
    const bool late = options_.timeout && std::chrono::steady_clock::now() - start > *options_.timeout;
    if (late || tried.size() >= kMostTried) {
      note(location, late ? "not tried: no time was left" : "not tried: too many locations failed before");
      break;
    }
    try {
      const auto pool = pool_at(location)->for_streams(needs.parts, needs.device, needs.copy_on_write);
      pool->put_back(pool->take(interrupted));  // so that an error of connecting isn't taken for one of the stream
      request(pool, ticket);
      return tried;
    } catch (const Error& error) {
      if (!may_go_on(error)) throw;
      note(location, std::string(error_name(error.code())) + ": " + error.what());
    }
  }
  try {
    request(do_get_->for_streams(needs.parts, needs.device, needs.copy_on_write), ticket);
    return tried;
  } catch (const Error& error) {
    if (tried.empty() || !is_of_the_way(error)) throw;
    throw_error(error.code(), std::string(error.what()) + "; tried before:" + list_of(tried), error.system_errno());
  }
}

void FlightFinder::offer(const std::string& name, std::unique_ptr<array::BatchStream> source, bool replace,
                         const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted) {
  check_open();
  session::offer(channel_, name, std::move(source), !replace, options_, wait, interrupted);
}

std::vector<std::shared_ptr<ClientPool>> FlightFinder::pools() {
  std::vector<std::shared_ptr<ClientPool>> all{do_get_};
  const std::lock_guard lock(mutex_);
  for (const auto& [location, pool] : pools_) all.push_back(pool);
  return all;
}

void FlightFinder::put(const std::string& name, array::BatchStream& source, bool replace,
                       const exchange::WaitFunction& wait, const transport::InterruptHook& interrupted) {
  check_open();
  // A stream can't be sent again once the server has asked for a new login.
  if (channel_->logs_in()) check(interrupted);
  session::put(channel_, name, source, !replace, *options_.runtime, wait, to_ms(options_.timeout), interrupted);
}

bool FlightFinder::drop_ended() {
  bool any = false;
  for (const auto& pool : pools()) any |= pool->drop_ended();
  return any;
}

void FlightFinder::close() {
  closed_.store(true, std::memory_order_relaxed);
  for (const auto& pool : pools()) pool->close();
}

}  // namespace crossdock::session
