#include "crossdock/session/relay.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/fork.h"
#include "core/memory_limit.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/catalog.h"
#include "session/io_loop.h"
#include "session/relay_memory.h"
#include "session/say.h"
#include "session/server_options.h"
#include "session/upstream.h"

namespace crossdock::session {
namespace {

using Clock = std::chrono::steady_clock;

/// For this time after a failure to connect, or an answer that didn't come, requests fail without another try, so that
/// each of them doesn't wait until an address that doesn't answer is given up.
constexpr std::chrono::seconds kRetryAfter{1};

constexpr const char* kNotHeld = "the relay fetches it when it is first asked for";

/// Whether an error says that the upstream, or the connection to it, is gone; others are its answers.
bool is_gone(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kConnection:
    case ErrorCode::kHandshake:
    case ErrorCode::kTruncatedStream:
    case ErrorCode::kTimeout:
    case ErrorCode::kClosed: return true;
    default: return false;
  }
}

std::uint64_t default_memory() {
  const auto room = memory_room({});
  return room ? room->limit / 4 : std::uint64_t{1} << 30;
}

RelayOptions checked(const std::vector<std::string>& upstream, RelayOptions options) {
  if (upstream.empty()) throw InvalidArgumentError("a relay needs at least one URI of a server to fetch from");
  if (!options.server.flight.uri.empty()) {
    throw InvalidArgumentError("a relay has no Flight server beside it: consumers connect to its own URIs");
  }
  if (options.max_age_ms < 0) throw InvalidArgumentError("max_age_ms must be at least 0");
  check_options(options.server);
  if (!options.server.runtime) options.server.runtime = Runtime::default_runtime();
  if (!options.server.transports) options.server.transports = make_transports();
  if (!options.client.transports) options.client.transports = make_transports();
  options.client.runtime = options.server.runtime;
  if (options.max_memory == 0) options.max_memory = default_memory();
  return options;
}

}  // namespace

struct Relay::Impl final : public Upstream {
  /// The upstream's catalog.
  struct List {
    Clock::time_point asked;  ///< Before it was read: what it says is at least as new.
    std::map<std::string, CatalogEntry, std::less<>> entries;
  };
  /// What is known of a published table.
  struct Held {
    std::int64_t version = -1;
    std::optional<Clock::time_point> current_at{};  ///< When it was last known to be current; nothing: it isn't.
  };
  /// A failure to connect.
  struct Failure {
    Clock::time_point at;
    std::exception_ptr error;
  };

  Impl(std::vector<std::string> from, RelayOptions given, const transport::InterruptHook& interrupted)
      : options(checked(from, std::move(given))),
        upstream(std::move(from)),
        memory(std::make_shared<RelayMemory>(options.max_memory, [this] { return evict(); })),
        catalog(options.server, access, false, this) {
    client_of_any(interrupted);  // before consumers can ask
    loop.emplace(options.server, *options.server.transports, catalog, nullptr);
  }

  bool is_current(std::string_view name) noexcept override {
    const std::lock_guard lock(mutex);
    const auto found = held.find(name);
    if (found == held.end() || !is_fresh(found->second.current_at)) return false;
    ++counts.hits;
    return true;
  }

  std::shared_ptr<const PublishedTable> fetch(const std::string& name, const Announce& announce) override {
    try {
      const auto list = list_with(name);
      const auto entry = list->entries.find(name);
      if (entry == list->entries.end()) {
        forget(name);
        throw NotFoundError("nothing is published as " + shown(name) + " at " + where());
      }
      if (auto table = still_current(entry->second, *list)) return table;
      return receive(entry->second, *list, announce);
    } catch (const Error& error) {
      if (auto table = stale(error, name)) return table;
      throw;
    }
  }

  std::vector<CatalogRow> rows() override {
    std::shared_ptr<const List> list;
    bool only_held = false;
    try {
      list = list_with({});
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      if (!options.stale || !is_gone(error.code()) || !last_list) throw;
      list = last_list;
      only_held = true;
    }
    std::vector<CatalogRow> rows;
    for (const auto& [name, entry] : list->entries) {
      const bool is_held = catalog.contains(name);
      if (only_held && !is_held) continue;
      CatalogRow row{.name = name, .schema = entry.schema, .rows = entry.rows, .bytes = entry.bytes};
      if (!is_held) row.why = kNotHeld;
      row.version = entry.version;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Whether what was known at that time may be served without a question.
  bool is_fresh(const std::optional<Clock::time_point>& at) const noexcept {
    return at && Clock::now() - *at < std::chrono::milliseconds(options.max_age_ms);
  }

  std::string where() const {
    const std::lock_guard lock(mutex);
    return connected_to.empty() ? upstream.front() : connected_to;
  }

  transport::InterruptHook stopping() {
    return [this] { return closing.load(std::memory_order_relaxed); };
  }

  /// Makes a new client the one that is used, unless another thread was faster. Returns the one that is used.
  std::shared_ptr<Client> use(std::shared_ptr<Client> made, const std::string& uri) {
    bool was_gone = false;
    {
      const std::lock_guard lock(mutex);
      if (client) return client;
      client = made;
      connected_to = uri;
      failure.reset();
      was_gone = std::exchange(gone, false);
    }
    if (was_gone) {
      say(options.server.log, LogLevel::kWarning, [&] { return "the relay has reached " + uri + " again"; });
    }
    return made;
  }

  /// Connects to the first upstream that answers.
  std::shared_ptr<Client> client_of_any(const transport::InterruptHook& interrupted) {
    std::string tried;
    for (const std::string& uri : upstream) {
      try {
        return use(std::make_shared<Client>(uri, options.client, interrupted), uri);
      } catch (const Error& error) {
        const bool not_there = is_gone(error.code()) || error.code() == ErrorCode::kNotFound;
        if (upstream.size() == 1 || !not_there) throw;
        tried += "\n  " + uri + ": " + error.what();
      }
    }
    throw ConnectionError("none of the relay's upstreams can be reached:" + tried);
  }

  std::shared_ptr<Client> connected() {
    {
      const std::lock_guard lock(mutex);
      if (client) return client;
      if (failure && Clock::now() - failure->at < kRetryAfter) std::rethrow_exception(failure->error);
    }
    try {
      try {
        return client_of_any(stopping());
      } catch (const NotFoundError& error) {
        throw ConnectionError(error.what());  // no socket; the name may well be in the catalog
      }
    } catch (const Error& error) {
      if (is_gone(error.code())) {
        const std::lock_guard lock(mutex);
        failure = {Clock::now(), std::current_exception()};
      }
      throw;
    }
  }

  /// Drops a client whose server is gone.
  void disconnect(const std::shared_ptr<Client>& gone_client) {
    const std::lock_guard lock(mutex);
    if (client != gone_client) return;
    client.reset();
    connected_to.clear();
  }

  /// Calls `use` with a client; once more, with a new one, if the server behind the first is gone: it may have been
  /// restarted.
  template <typename Use>
  auto with_client(Use use) {
    for (bool first = true;; first = false) {
      const std::shared_ptr<Client> with = connected();
      try {
        return use(*with);
      } catch (const Error& error) {
        if (!is_gone(error.code())) throw;
        disconnect(with);
        if (error.code() == ErrorCode::kTimeout) {
          // It stands still: others needn't wait for it as long.
          const std::lock_guard lock(mutex);
          failure = {Clock::now(), std::current_exception()};
          throw;
        }
        if (!first) throw;
      }
    }
  }

  /// Returns the upstream's catalog: the last one if it is fresh and has `name`.
  std::shared_ptr<const List> list_with(std::string_view name) {
    {
      const std::lock_guard lock(mutex);
      if (last_list && is_fresh(last_list->asked) && (name.empty() || last_list->entries.contains(name))) {
        return last_list;
      }
    }
    auto list = std::make_shared<List>();
    list->asked = Clock::now();
    for (CatalogEntry& entry : with_client([&](Client& from) { return from.list({}, stopping()); })) {
      std::string key = entry.name;
      list->entries.emplace(std::move(key), std::move(entry));
    }
    const std::lock_guard lock(mutex);
    ++counts.catalogs;
    if (last_list && last_list->asked > list->asked) return list;
    last_list = list;
    for (auto known = held.begin(); known != held.end();) {
      const auto entry = list->entries.find(known->first);
      known = entry == list->entries.end() ? held.erase(known) : std::next(known);
      if (entry == list->entries.end()) continue;
      Held& of = std::prev(known)->second;
      if (of.version < 0) continue;  // current for a time
      of.current_at = of.version == entry->second.version ? std::optional(list->asked) : std::nullopt;
    }
    return list;
  }

  /// Returns what is published if the upstream's catalog says that it is current; else null.
  std::shared_ptr<const PublishedTable> still_current(const CatalogEntry& entry, const List& list) {
    auto table = catalog.table(entry.name);
    if (!table) return nullptr;
    const std::lock_guard lock(mutex);
    const auto found = held.find(entry.name);
    if (found == held.end() || found->second.version != entry.version) return nullptr;
    if (entry.version < 0) {
      if (!is_fresh(found->second.current_at)) return nullptr;
    } else {
      found->second.current_at = list.asked;
    }
    ++counts.hits;
    return table;
  }

  /// Returns what is published if the upstream is gone, and such may be served; else null.
  std::shared_ptr<const PublishedTable> stale(const Error& error, const std::string& name) {
    if (!options.stale || !is_gone(error.code()) || closing.load(std::memory_order_relaxed)) return nullptr;
    auto table = catalog.table(name);
    if (!table) return nullptr;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex);
      ++counts.stale_hits;
      is_new = !std::exchange(gone, true);
    }
    if (is_new) {
      say(options.server.log, LogLevel::kWarning,
          [&] { return std::string("the relay serves what it holds: its upstream is gone: ") + error.what(); });
    }
    return table;
  }

  /// Withdraws a name that the upstream no longer has.
  void forget(const std::string& name) {
    {
      const std::lock_guard lock(mutex);
      held.erase(name);
    }
    catalog.drop(name);
  }

  std::shared_ptr<const PublishedTable> receive(const CatalogEntry& entry, const List& list, const Announce& announce) {
    try {
      auto table = with_client([&](Client& from) { return receive_from(from, entry, announce); });
      const std::lock_guard lock(mutex);
      held[entry.name] = {.version = entry.version, .current_at = list.asked};
      ++counts.fetches;
      counts.bytes_fetched += table->bytes;
      return table;
    } catch (...) {
      const std::lock_guard lock(mutex);
      ++counts.failures;
      throw;
    }
  }

  /// Receives a table or tensors, and publishes them.
  std::shared_ptr<const PublishedTable> receive_from(Client& from, const CatalogEntry& entry,
                                                     const Announce& announce) {
    const auto content = entry.schema ? tensor_content(*entry.schema) : std::nullopt;
    if (!content && entry.bytes < 0 && !is_flight()) {
      throw UnsupportedError(shown(entry.name) + " is a live stream or a callable at " + where() +
                             ", which a relay doesn't pass on: connect to that server");
    }
    const auto expected = static_cast<std::uint64_t>(std::max<std::int64_t>(entry.bytes, 0));
    const auto into = std::make_shared<FetchMemory>(memory, options.server.runtime->make_arena(options.max_memory),
                                                    entry.name, expected);
    Source source = request(from, entry.name, content, into, announce);
    auto table = catalog.publish(entry.name, std::move(source), {.replace = true});
    try {
      into->keep(table);
    } catch (...) {
      catalog.drop(entry.name);
      throw;
    }
    return table;
  }

  Source request(Client& from, const std::string& name, const std::optional<TensorContent>& content,
                 const std::shared_ptr<FetchMemory>& into, const Announce& announce) {
    if (!content) {
      GetOptions how;
      how.timeout_ms = options.client.timeout_ms;
      how.memory = into;
      auto reader = from.get(name, how, stopping());
      reader->set_interrupt_hook(stopping());
      announce(*reader->schema());
      return Source::table(std::move(reader));
    }
    TensorOptions how;
    how.timeout_ms = options.client.timeout_ms;
    how.memory = into;
    if (content->single) return Source::tensor(from.tensor(name, how, stopping()));
    return Source::tensors(from.tensors(name, how, stopping()));
  }

  bool is_flight() const { return dissociated::parse_uri(where()).scheme.starts_with("grpc"); }

  bool evict() {
    if (!catalog.evict()) return false;
    const std::lock_guard lock(mutex);
    ++counts.evictions;
    return true;
  }

  ForkGuard made_in;
  const RelayOptions options;
  const std::vector<std::string> upstream;
  std::atomic<bool> closing{false};
  mutable std::mutex mutex;  // guards these; the catalog calls is_current() with its own lock held
  std::shared_ptr<Client> client;
  std::string connected_to;  // the client's URI
  std::optional<Failure> failure;
  bool gone = false;  // the log says that the upstream is gone
  std::shared_ptr<const List> last_list;
  std::map<std::string, Held, std::less<>> held;
  RelayStats counts;

  const flight::Access access{};  // asks for no tickets: there is no Flight server
  const std::shared_ptr<RelayMemory> memory;
  Catalog catalog;
  std::optional<IoLoop> loop;
};

Relay::Relay(std::vector<std::string> upstream, RelayOptions options, const transport::InterruptHook& interrupted)
    : impl_(std::make_unique<Impl>(std::move(upstream), std::move(options), interrupted)) {}

Relay::~Relay() {
  if (impl_->made_in.in_child()) {
    // The threads, the socket and the leases belong to the parent.
    [[maybe_unused]] const auto* left = impl_.release();
    return;
  }
  close();
}

const std::vector<std::string>& Relay::uris() const noexcept { return impl_->loop->uris(); }

RelayStats Relay::stats() const {
  impl_->made_in.check("this Relay");
  ServerStats server = impl_->loop->stats();
  impl_->catalog.add_stats(&server);
  const std::uint64_t used = impl_->memory->used();
  const std::lock_guard lock(impl_->mutex);
  RelayStats stats = impl_->counts;
  stats.server = std::move(server);
  stats.bytes_used = used;
  stats.max_memory = impl_->options.max_memory;
  stats.upstream = impl_->connected_to;
  return stats;
}

void Relay::close(const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Relay");
  impl_->closing.store(true, std::memory_order_relaxed);
  impl_->catalog.close();
  impl_->loop->close();
  impl_->catalog.wait_for_sources(interrupted);
}

}  // namespace crossdock::session
