#include "crossdock/session/relay.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "core/fork.h"
#include "core/memory_limit.h"
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
/// What a tensor without elements takes, at most.
constexpr std::uint64_t kTensor = 1024;

std::uint64_t default_memory() {
  const auto room = memory_room({});
  return room ? room->limit / 4 : std::uint64_t{1} << 30;
}

/// Returns how many memory files a relay may keep: half of what this process may have open. The rest is for consumers.
std::size_t most_regions() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(files.rlim_cur / 2);
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

/// Throws what a consumer gets for an error of the upstream, or of the connection to it.
[[noreturn]] void throw_to_consumer(const Error& error) {
  if (!is_gone(error.code()) || error.code() == ErrorCode::kUpstream) throw;
  throw UpstreamError("the relay can't reach its upstream: " + std::string(error_name(error.code())) + ": " +
                      error.what());
}

std::uint64_t random_offset() {
  std::random_device source;
  return ((static_cast<std::uint64_t>(source()) << 32) | source()) | 1;
}

}  // namespace

// How a consumer that is a relay itself learns of every change: it takes the version of what it has fetched from the
// catalog that it has read before. Where the two don't fit, because a newer catalog has come while an older table was
// fetched, or because the upstream is gone, the versions in later catalogs get an offset: such a consumer finds another
// version, and fetches again.
struct Relay::Impl final : public Upstream {
  /// The upstream's catalog.
  struct List {
    Clock::time_point asked;  ///< Before it was read: what it says is at least as new.
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
    std::uint64_t changes = 0;
    std::uint64_t offsets = 0;
    bool operator==(const Shown&) const = default;
  };
  /// What is added to the versions of a name, and how many catalogs with the upstream's versions were given out before.
  struct Offset {
    std::uint64_t value = 0;
    std::uint64_t after = 0;
  };
  /// What the log has said.
  enum class Gone : std::uint8_t { kNo, kUpstream, kBeyond };

  Impl(std::vector<std::string> from, RelayOptions given, const transport::InterruptHook& interrupted)
      : options(checked(from, std::move(given))),
        link(std::move(from), options.client, interrupted),  // before consumers can ask
        memory(std::make_shared<RelayMemory>(options.max_memory, most_regions(),
                                             [this](std::uint64_t bytes) { return evict(bytes); })),
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
    Catalog::Held given;
    try {
      given = current_of(name, task);
    } catch (const Error& error) {
      given = stale(error, name);
      if (!given.table) throw_to_consumer(error);
    }
    seal(name, given.version, task);
    return given.table;
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
      what.offsets = n_offsets;
      if (last_listing && listing_of == what) {
        n_listings += what.reached ? 1 : 0;
        return last_listing;
      }
    }
    auto made = publish_catalog(rows(what));
    std::shared_ptr<const PublishedTable> old;  // destroyed without the lock
    const std::lock_guard lock(mutex);
    n_listings += what.reached ? 1 : 0;  // not before its versions had their offsets
    old = std::exchange(last_listing, made);
    listing_of = std::move(what);
    return made;
  }

  std::vector<CatalogRow> rows(const Shown& what) const {
    std::vector<CatalogRow> rows;
    for (const auto& [name, entry] : what.list->entries) {
      CatalogRow row{.name = name, .schema = entry.schema, .rows = entry.rows, .bytes = entry.bytes};
      const Catalog::Held held = catalog.held(name);
      std::int64_t version = entry.version;
      if (!held.table) {
        row.why = what.reached ? kNotHeld : kNotReached;
      } else if (!what.reached) {
        row.schema = held.table->schema;
        row.rows = held.table->rows;
        row.bytes = static_cast<std::int64_t>(held.table->bytes);
        version = held.version;
      }
      row.version = listed(name, version);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Returns the version that consumers are told.
  std::int64_t listed(const std::string& name, std::int64_t version) const {
    if (version < 0) return version;
    const std::lock_guard lock(mutex);
    const auto offset = offsets.find(name);
    if (offset == offsets.end()) return version;
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(version) + offset->second.value) & INT64_MAX);
  }

  /// Lets no other request join the task, and sees whether what it gives out is what the last catalog said.
  void seal(const std::string& name, std::int64_t version, FetchTask& task) {
    const std::lock_guard lock(mutex);
    task.seal();  // who has joined has read the last list's catalog, or an earlier one
    const auto entry = last_list->entries.find(name);
    if (entry == last_list->entries.end() || entry->second.version == version) return;
    Offset& offset = offsets[name];
    if (offset.value != 0 && offset.after == n_listings) return;  // nobody was told the version with this offset
    offset = {random_offset(), n_listings};
    ++n_offsets;
  }

  /// Whether what was asked at that time may be served without a question.
  bool is_fresh(Clock::time_point asked) const noexcept {
    return Clock::now() - asked < std::chrono::milliseconds(options.max_age_ms);
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
    {
      std::unique_lock lock(mutex);
      for (;;) {
        if (last_list) {
          const bool is_enough = is_fresh(last_list->asked) && (name.empty() || last_list->entries.contains(name));
          if (is_enough || last_list->asked >= since) return last_list;
        }
        if (list_failure && list_failure->asked >= since) std::rethrow_exception(list_failure->error);
        if (!reading_list) break;
        list_read.wait(lock);
      }
      reading_list = true;
    }
    auto list = std::make_shared<List>();
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
    say_reached(reached, Gone::kUpstream);
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
    const auto is_gone_from_list = [&](const auto& of) { return !list->entries.contains(of.first); };
    std::erase_if(fetched_at, is_gone_from_list);
    std::erase_if(offsets, is_gone_from_list);
  }

  Catalog::Held current_of(const std::string& name, FetchTask& task) {
    const auto list = list_with(name);
    const auto entry = list->entries.find(name);
    if (entry == list->entries.end()) {
      catalog.drop(name);
      throw NotFoundError("nothing is published as " + shown(name) + " at " + link.where());
    }
    if (Catalog::Held held = still_current(entry->second); held.table) return held;
    return {.table = receive(entry->second, *list, task), .version = entry->second.version};
  }

  /// Returns what is published if the upstream's catalog says that it is current; else no table.
  Catalog::Held still_current(const CatalogEntry& entry) {
    Catalog::Held held = catalog.held(entry.name);
    if (!held.table || held.version != entry.version) return {};
    const std::lock_guard lock(mutex);
    if (entry.version < 0 && !current(entry.name, -1)) return {};
    ++counts.hits;
    return held;
  }

  /// Returns what is published if the upstream is gone, and such may be served; else no table.
  Catalog::Held stale(const Error& error, const std::string& name) {
    if (!options.stale || !is_gone(error.code()) || link.stopped()) return {};
    Catalog::Held held = catalog.held(name);
    if (!held.table) return held;
    const Gone now = error.code() == ErrorCode::kUpstream ? Gone::kBeyond : Gone::kUpstream;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex);
      ++counts.stale_hits;
      is_new = std::exchange(gone, now) == Gone::kNo;
    }
    if (is_new) {
      say(options.server.log, LogLevel::kWarning,
          [&] { return std::string("the relay serves what it holds: its upstream is gone: ") + error.what(); });
    }
    return held;
  }

  /// Says that the upstream is there again, if the log has said that it, or one beyond it, is gone.
  void say_reached(const std::string& uri, Gone at_most) {
    {
      const std::lock_guard lock(mutex);
      if (gone == Gone::kNo || gone > at_most) return;
      gone = Gone::kNo;
    }
    say(options.server.log, LogLevel::kWarning, [&] { return "the relay has reached " + uri + " again"; });
  }

  std::shared_ptr<const PublishedTable> receive(const CatalogEntry& entry, const List& list, FetchTask& task) {
    std::string reached;
    try {
      auto table = link.ask(RelayLink::Slow::kData, [&](Client& from, const std::string& uri) {
        reached = uri;
        return receive_from(from, uri, entry, task);
      });
      {
        const std::lock_guard lock(mutex);
        if (entry.version < 0) fetched_at[entry.name] = list.asked;
        ++counts.fetches;
        counts.bytes_fetched += table->bytes;
      }
      say_reached(reached, Gone::kBeyond);
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
    const auto into = std::make_shared<FetchMemory>(memory, options.server.runtime->make_arena(options.max_memory),
                                                    entry.name, expected);
    Source source = request(from, entry.name, content, into, task);
    auto table = catalog.publish(entry.name, std::move(source), {.replace = true}, entry.version);
    try {
      into->keep(table);
    } catch (...) {
      catalog.drop(entry.name);
      throw;
    }
    return table;
  }

  Source request(Client& from, const std::string& name, const std::optional<TensorContent>& content,
                 const std::shared_ptr<FetchMemory>& into, FetchTask& task) {
    if (!content) {
      GetOptions how;
      how.timeout_ms = options.client.timeout_ms;
      how.memory = into;
      auto reader = from.get(name, how, link.stopping());
      reader->set_interrupt_hook(link.stopping());
      task.announce(*reader->schema());
      return Source::table(
          std::make_unique<ChargedStream>(std::move(reader), [into](const BatchCost& batch) { into->charge(batch); }));
    }
    TensorOptions how;
    how.timeout_ms = options.client.timeout_ms;
    how.memory = into;
    how.max_tensors = std::min(how.max_tensors, std::max<std::uint64_t>(into->limit() / kTensor, 1));
    how.max_path_bytes = std::min(how.max_path_bytes, into->limit());
    if (content->single) return Source::tensor(from.tensor(name, how, link.stopping()));
    return Source::tensors(from.tensors(name, how, link.stopping()));
  }

  bool evict(std::uint64_t bytes) {
    const std::size_t evicted =
        catalog.evict(bytes, [this](const PublishedTable& table) { return memory->size_of(table); });
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
  std::map<std::string, Offset, std::less<>> offsets;                // see above
  std::uint64_t n_offsets = 0;                                       // that were made
  std::uint64_t n_listings = 0;  // catalogs with the upstream's versions that were given out
  Shown listing_of;              // what made last_listing
  std::shared_ptr<const PublishedTable> last_listing;
  Gone gone = Gone::kNo;
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
  stats.upstream = impl_->link.uri();
  return stats;
}

void Relay::close(const transport::InterruptHook& interrupted) {
  impl_->made_in.check("this Relay");
  impl_->link.stop();
  impl_->catalog.close();
  impl_->loop->close();
  impl_->catalog.wait_for_sources(interrupted);
}

}  // namespace crossdock::session
