#include "crossdock/session/relay.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/fork.h"
#include "core/memory_limit.h"
#include "core/milliseconds.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/catalog.h"
#include "session/catalog_table.h"
#include "session/io_loop.h"
#include "session/relay_link.h"
#include "session/relay_memory.h"
#include "session/say.h"
#include "session/server_options.h"
#include "session/upstream.h"

namespace crossdock::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kNotHeld = "the relay fetches it when it is first asked for";
constexpr const char* kNotReached = "the relay doesn't hold it, and can't reach its upstream";
/// What a tensor without elements takes at most, and its path on average.
constexpr std::uint64_t kTensor = 1024;
constexpr std::uint64_t kPath = 1024;
/// What an arena can reserve.
constexpr std::uint64_t kMostArena = std::uint64_t{1} << 46;

std::uint64_t default_memory() {
  const auto room = memory_room({});
  return room ? room->limit / 4 : std::uint64_t{1} << 30;
}

/// Returns how many memory files a relay may keep: half of what this process may have open. The rest is for consumers.
std::uint64_t most_regions() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return files.rlim_cur / 2;
}

RelayOptions checked(const std::vector<std::string>& upstream, RelayOptions options) {
  if (upstream.empty()) throw InvalidArgumentError("a relay needs at least one URI of a server to fetch from");
  if (!options.server.flight.uri.empty()) {
    throw InvalidArgumentError("a relay has no Flight server beside it: consumers connect to its own URIs");
  }
  if (options.max_age.count() < 0) throw InvalidArgumentError("max_age must be at least 0");
  check_options(options.server);
  if (!options.server.runtime) options.server.runtime = Runtime::default_runtime();
  if (!options.server.transports) options.server.transports = make_transports();
  if (!options.client.transports) options.client.transports = make_transports();
  options.client.runtime = options.server.runtime;
  if (options.max_memory == 0) options.max_memory = default_memory();
  return options;
}

/// Throws what a consumer gets for an error of the upstream, or of the connection to it.
[[noreturn]] void throw_to_consumer(const Error& error) {
  if (!is_gone(error.code()) || error.code() == ErrorCode::kUpstream) throw;
  throw UpstreamError("the relay can't reach its upstream: " + std::string(error_name(error.code())) + ": " +
                      error.what());
}

}  // namespace

// A table that is received says its own version (src/session/table_version.h): the catalog that was read before may
// have told another one, where a relay in between was fetching older data, or serves it because its upstream is gone.
// So what is held has the right version in any case, and is current when the upstream's catalog has the same.
struct Relay::Impl final : public Upstream {
  /// The upstream's catalog.
  struct List {
    Clock::time_point asked;  ///< Before it was read.
    std::map<std::string, CatalogEntry, std::less<>> entries;
  };
  /// A read of the catalog that has failed.
  struct Failure {
    Clock::time_point asked;
    std::exception_ptr error;
  };
  /// What made the catalog that consumers get.
  struct Shown {
    std::shared_ptr<const List> list;
    bool reached = false;
    std::uint64_t changes = 0;  // of the catalog of what is held
    bool operator==(const Shown&) const = default;
  };

  Impl(std::vector<std::string> from, RelayOptions given, const transport::InterruptHook& interrupted)
      : options(checked(from, std::move(given))),
        link(std::move(from), options.client, interrupted),  // before consumers can ask
        memory(std::make_shared<RelayMemory>(
            options.max_memory, most_regions(),
            [this](std::uint64_t needed, const RelayMemory::SizeOf& size_of) { return evict(needed, size_of); })),
        catalog(options.server, access, false, this) {
    loop.emplace(options.server, *options.server.transports, catalog, nullptr);
  }

  bool is_current(std::string_view name, std::int64_t version) noexcept override {
    const std::lock_guard lock(mutex);
    if (!current(name, version)) return false;
    ++counts.hits;
    return true;
  }

  std::shared_ptr<const PublishedTable> fetch(const std::string& name, FetchTask& task) override {
    std::shared_ptr<const List> list;
    try {
      if (is_failing()) task.seal();  // others get the last error at once, and what is held
      list = list_with(name);
    } catch (const Error& error) {
      if (auto table = stale(error, name)) {
        say_gone(error);
        return table;
      }
      throw_to_consumer(error);
    }
    try {
      return current_of(name, *list, task);
    } catch (const Error& error) {
      if (auto table = stale(error, name)) return table;
      throw_to_consumer(error);
    }
  }

  std::shared_ptr<const PublishedTable> listing() override {
    Shown what;
    try {
      what = {.list = list_with({}), .reached = true};
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      if (!options.stale || !is_gone(error.code()) || !last_list) throw_to_consumer(error);
      what.list = last_list;
    }
    what.changes = catalog.changes();
    {
      const std::lock_guard lock(mutex);
      if (last_listing && listing_of == what) return last_listing;
    }
    auto made = publish_catalog(rows(what));
    std::shared_ptr<const PublishedTable> old = made;  // destroyed without the lock, as is `what`
    const std::lock_guard lock(mutex);
    std::swap(last_listing, old);
    std::swap(listing_of, what);
    return made;
  }

  RelayStats stats() const override {
    const std::uint64_t used = memory->used();
    const std::lock_guard lock(mutex);
    RelayStats stats = counts;
    stats.bytes_used = used;
    stats.max_memory = options.max_memory;
    stats.upstream = link.uri();
    return stats;
  }

  std::vector<CatalogRow> rows(const Shown& what) const {
    std::vector<CatalogRow> rows;
    for (const auto& [name, entry] : what.list->entries) {
      CatalogRow row{.name = name, .schema = entry.schema, .rows = entry.rows, .bytes = entry.bytes};
      const auto held = catalog.held(name);
      row.version = entry.version;
      if (!held) {
        row.why = what.reached ? kNotHeld : kNotReached;
      } else if (!what.reached) {
        row.schema = held->schema;
        row.rows = held->rows;
        row.bytes = static_cast<std::int64_t>(held->bytes);
        row.version = held->version;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Whether what was asked at that time may be served without a question.
  bool is_fresh(Clock::time_point asked) const noexcept {
    // In milliseconds: a time of 300 years and more, which stands for one without an end, has too many nanoseconds.
    return std::chrono::floor<std::chrono::milliseconds>(Clock::now() - asked) < options.max_age;
  }

  /// Whether what is published, with this version, may be served without a question. Call it with the lock held.
  bool current(std::string_view name, std::int64_t version) const noexcept {
    if (version < 0) {
      const auto found = fetched_at.find(name);
      return found != fetched_at.end() && is_fresh(found->second);
    }
    if (!last_list || !is_fresh(last_list->asked)) return false;
    const auto entry = last_list->entries.find(name);
    return entry != last_list->entries.end() && entry->second.version == version;
  }

  /// Returns the upstream's catalog: the last one if it is fresh and has `name`, or one that is read now. One thread
  /// reads it for all that wait, so a list that is read later is newer.
  std::shared_ptr<const List> list_with(std::string_view name) {
    const Clock::time_point since = Clock::now();
    auto list = std::make_shared<List>();
    {
      std::unique_lock lock(mutex);
      for (;;) {
        if (last_list) {
          const bool is_enough = is_fresh(last_list->asked) && (name.empty() || last_list->entries.contains(name));
          if (is_enough || last_list->asked >= since) return last_list;
        }
        // While one tries again, others needn't wait for that.
        if (list_failure && (reading_list || list_failure->asked >= since)) std::rethrow_exception(list_failure->error);
        if (!reading_list) break;
        list_read.wait(lock);
      }
      reading_list = true;
    }
    list->asked = Clock::now();
    std::string reached;
    std::exception_ptr error;
    try {
      auto entries = link.ask(RelayLink::Slow::kServer, [&](Client& from, const std::string& uri) {
        reached = uri;
        return from.list({}, link.stopping());
      });
      for (CatalogEntry& entry : entries) {
        std::string key = entry.name;
        list->entries.emplace(std::move(key), std::move(entry));
      }
    } catch (...) {
      error = std::current_exception();
    }
    take_list(list, error);
    if (error) std::rethrow_exception(error);
    say_reached(reached);
    return list;
  }

  /// Makes a list the last one, or tells those who wait that there is none.
  void take_list(const std::shared_ptr<const List>& list, const std::exception_ptr& error) {
    std::shared_ptr<const List> old;  // destroyed without the lock
    const std::lock_guard lock(mutex);
    reading_list = false;
    list_read.notify_all();
    if (error) {
      list_failure = {list->asked, error};
      return;
    }
    ++counts.catalogs;
    list_failure.reset();
    old = std::exchange(last_list, list);
    std::erase_if(fetched_at, [&](const auto& of) { return !list->entries.contains(of.first); });
  }

  /// Whether the last read of the catalog has failed.
  bool is_failing() const {
    const std::lock_guard lock(mutex);
    return list_failure.has_value();
  }

  std::shared_ptr<const PublishedTable> current_of(const std::string& name, const List& list, FetchTask& task) {
    const auto entry = list.entries.find(name);
    if (entry == list.entries.end()) {
      catalog.drop(name);
      throw NotFoundError("nothing is published as " + shown(name) + " at " + link.where());
    }
    if (auto table = still_current(entry->second)) return table;
    return receive(entry->second, list, task);
  }

  /// Returns what is published if the upstream's catalog says that it is current; else null.
  std::shared_ptr<const PublishedTable> still_current(const CatalogEntry& entry) {
    auto table = catalog.held(entry.name);
    if (!table || table->version != entry.version) return nullptr;
    const std::lock_guard lock(mutex);
    if (entry.version < 0 && !current(entry.name, -1)) return nullptr;
    ++counts.hits;
    return table;
  }

  /// Returns what is published if the upstream is gone, and such may be served; else null.
  std::shared_ptr<const PublishedTable> stale(const Error& error, const std::string& name) {
    if (!options.stale || !is_gone(error.code()) || link.stopped()) return nullptr;
    auto table = catalog.held(name);
    if (!table) return nullptr;
    const std::lock_guard lock(mutex);
    ++counts.stale_hits;
    return table;
  }

  /// Says once that the upstream is gone.
  void say_gone(const Error& error) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(gone, true)) return;
    }
    say(options.server.log, LogLevel::kWarning,
        [&] { return std::string("the relay serves what it holds: its upstream is gone: ") + error.what(); });
  }

  /// Says that the upstream is there again, if the log has said that it is gone.
  void say_reached(const std::string& uri) {
    {
      const std::lock_guard lock(mutex);
      if (!std::exchange(gone, false)) return;
    }
    say(options.server.log, LogLevel::kWarning, [&] { return "the relay has reached " + uri + " again"; });
  }

  std::shared_ptr<const PublishedTable> receive(const CatalogEntry& entry, const List& list, FetchTask& task) {
    try {
      auto table = link.ask(RelayLink::Slow::kData,
                            [&](Client& from, const std::string& uri) { return receive_from(from, uri, entry, task); });
      const std::lock_guard lock(mutex);
      if (entry.version < 0) fetched_at[entry.name] = list.asked;
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
  std::shared_ptr<const PublishedTable> receive_from(Client& from, const std::string& uri, const CatalogEntry& entry,
                                                     FetchTask& task) {
    const auto content = entry.schema ? tensor_content(*entry.schema) : std::nullopt;
    if (!content && entry.bytes < 0 && !dissociated::parse_uri(uri).scheme.starts_with("grpc")) {
      throw UnsupportedError(shown(entry.name) + " is a live stream or a callable at " + uri +
                             ", which a relay doesn't pass on: connect to that server");
    }
    const auto expected = static_cast<std::uint64_t>(std::max<std::int64_t>(entry.bytes, 0));
    const auto into = std::make_shared<FetchMemory>(
        memory, options.server.runtime->make_arena(std::min(options.max_memory, kMostArena)), entry.name, expected);
    std::int64_t version = -1;
    Source source = content ? request_tensors(from, entry.name, *content, into, &version)
                            : request_table(from, entry, into, task, &version);
    // A server whose catalog has no versions is asked again by time.
    if (entry.version < 0) version = -1;
    auto table = catalog.publish(entry.name, std::move(source), {.replace = true}, version);
    try {
      into->keep(table);
    } catch (...) {
      catalog.drop(entry.name);
      throw;
    }
    return table;
  }

  Source request_table(Client& from, const CatalogEntry& entry, const std::shared_ptr<FetchMemory>& into,
                       FetchTask& task, std::int64_t* version) {
    GetOptions how;
    how.timeout = options.client.timeout;
    how.memory = into;
    auto reader = from.get(entry.name, how, link.stopping());
    reader->set_interrupt_hook(link.stopping());
    *version = reader->version();
    into->charge({.buffers = 0, .messages = cost_of(*reader->schema())});
    task.announce(*reader->schema(), entry.version < 0 ? -1 : *version);
    return Source::table(
        std::make_unique<ChargedStream>(std::move(reader), [into](const BatchCost& batch) { into->charge(batch); }));
  }

  Source request_tensors(Client& from, const std::string& name, const TensorContent& content,
                         const std::shared_ptr<FetchMemory>& into, std::int64_t* version) {
    TensorOptions how;
    how.timeout = options.client.timeout;
    how.memory = into;
    how.version = version;
    how.max_tensors = std::min(how.max_tensors, static_cast<std::uint64_t>(std::max<std::int64_t>(content.count, 1)));
    how.max_path_bytes = std::min(how.max_path_bytes, how.max_tensors * kPath);
    into->charge({.buffers = 0, .messages = how.max_tensors * (kTensor + kPath)});
    if (content.single) return Source::tensor(from.tensor(name, how, link.stopping()));
    return Source::tensors(from.tensors(name, how, link.stopping()));
  }

  bool evict(std::uint64_t needed, const RelayMemory::SizeOf& size_of) {
    const std::size_t evicted = catalog.evict(needed, size_of);
    const std::lock_guard lock(mutex);
    counts.evictions += evicted;
    return evicted > 0;
  }

  ForkGuard made_in;
  const RelayOptions options;
  RelayLink link;
  mutable std::mutex mutex;  // guards these; the catalog calls is_current() with its own lock held
  std::shared_ptr<const List> last_list;
  std::optional<Failure> list_failure;
  bool reading_list = false;
  std::condition_variable list_read;
  std::map<std::string, Clock::time_point, std::less<>> fetched_at;  // of data without versions: when it was asked for
  Shown listing_of;                                                  // what made last_listing
  std::shared_ptr<const PublishedTable> last_listing;
  bool gone = false;  // the log says so
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

const std::string& Relay::uri() const noexcept { return uris().front(); }
const std::vector<std::string>& Relay::uris() const noexcept { return impl_->loop->uris(); }

ServerStats Relay::stats() const {
  impl_->made_in.check("this Relay");
  return impl_->loop->stats();
}

bool Relay::drain(const TimeLimit& timeout, const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Relay");
  impl_->catalog.refuse_requests();
  return impl_->loop->drain(to_ms(timeout), interrupted);
}

void Relay::close(const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Relay");
  impl_->link.stop();
  impl_->catalog.close();
  impl_->loop->close();
  impl_->catalog.wait_for_sources(interrupted);
}

}  // namespace crossdock::session
