#include "session/catalog.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "core/release.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "session/batch_statistics.h"
#include "session/catalog_table.h"
#include "session/live_stream.h"
#include "session/selected_messages.h"
#include "session/table_name.h"
#include "session/table_version.h"

namespace crossdock::session {
namespace {

/// Whether no batch is wanted: such a request, which clients make before others, doesn't count as one for the table.
bool asks_for_schema(const dissociated::Request& request) noexcept {
  return request.batches && request.batches->empty();
}

constexpr std::size_t kMostListings = 16;
// A size that release_memory() never frees on the calling thread.
constexpr std::uint64_t kOnAnotherThread = 1 << 20;

/// Returns a name in quotes, for errors. Bytes that are no text are shown as Python writes bytes.
std::string in_quotes(std::string_view name) {
  return is_text_name(name) ? '"' + excerpt(name) + '"' : "b" + shown(name);
}

/// Returns the ways by which all regions of a table can reach a peer.
transport::Ways ways_of(const PublishedTable& table, const transport::Connection& asking) {
  transport::Ways ways = asking.agreement().ways;
  for (const auto& region : table.regions) ways = ways & asking.ways_of(*region);
  return ways;
}

/// `table`: null for a live stream. `host_copy`: its copy on the host goes. `not_read`: its regions can't be prepared.
WayAnswer way_of(const transport::Connection& asking, const PublishedTable* table, bool host_copy = false,
                 bool not_read = false) {
  const transport::Agreement& peer = asking.agreement();
  if (peer.role == ChannelRole::kMetadata) return {transport::Way::kMap, ""};
  WayQuestion question{.agreed = peer.ways,
                       .of_regions = peer.ways,
                       .host_copy = host_copy,
                       .live = table == nullptr,
                       .tcp = peer.carrier == "tcp" || peer.carrier == "tcp+tls",
                       .one_sided = peer.one_sided,
                       .wants_parts = peer.wants_parts,
                       .prefers_reads = peer.prefers_reads};
  if (table != nullptr && !host_copy) {
    question.on_device = table->on_device();
    question.of_regions = ways_of(*table, asking);
  }
  if (not_read) question.of_regions = question.of_regions & transport::Way::kMessage;
  return choose_way(question);
}

bool needs_host_copy(const PublishedTable& table, const transport::Connection& asking) {
  const transport::Agreement& peer = asking.agreement();
  // Metadata alone has no bodies.
  if (peer.role == ChannelRole::kMetadata || !table.on_device()) return false;
  const transport::Ways ways = ways_of(table, asking);
  if (ways.empty()) return true;
  if (ways.has(transport::Way::kMap)) return false;
  // Some columns alone can be read from the copy; a message from the device has all of them.
  if (peer.wants_parts && peer.ways.has(transport::Way::kRead)) return true;
  return std::ranges::any_of(table.messages, [&](const PublishedMessage& message) {
    constexpr auto kMost = transport::Connection::kMaxDeviceParts;
    const auto has_bytes = [](const dissociated::RemoteBuffer& buffer) { return buffer.length != 0; };
    return message.n_buffers > kMost &&
           static_cast<std::size_t>(std::ranges::count_if(table.buffers_of(message), has_bytes)) > kMost;
  });
}

/// Whether this consumer gets the sealed copy of a file.
bool is_for_others(const PublishedTable& table, const transport::Connection& asking) {
  // A body sent by value is a copy that belongs to the consumer: later changes of the file don't change it.
  return ways_of(table, asking).empty() ||
         (!asking.agreement().same_user && way_of(asking, &table).way != transport::Way::kMessage);
}

/// Prepares the regions of a table, or of its copy on the host, for reads. Returns `way`, or, where the system refuses
/// to prepare them, the way as messages.
WayAnswer prepared(const PublishedTable& table, const transport::Connection& asking, const WayAnswer& way,
                   bool host_copy) {
  const auto prepare = [&](const auto& region) { return asking.prepare_reads(*region); };
  if (way.way != transport::Way::kRead || std::ranges::all_of(table.regions, prepare)) return way;
  return way_of(asking, &table, host_copy, true);
}

/// Opens a table, or `batches` of it. `host_copy` as of prepared().
std::unique_ptr<ServerStream> open_table(const std::shared_ptr<const PublishedTable>& table,
                                         const transport::Connection& asking, const WayAnswer& way,
                                         const std::optional<std::vector<dissociated::BatchRange>>& batches = {},
                                         bool host_copy = false) {
  std::optional<std::vector<std::uint32_t>> messages;
  if (batches) messages = selected_messages(*table, *batches);
  const WayAnswer taken = prepared(*table, asking, way, host_copy);
  return std::make_unique<TableStream>(table, taken, std::move(messages));
}

/// Throws if a request has parameters, and what it asks for isn't a table that has a version, by which its parts and
/// its statistics can be told from those of another one.
void check_parameters(std::string_view name, const PublishedTable* table, const dissociated::Request& request) {
  if (!request.has_parameters()) return;
  const char* const why = table == nullptr     ? "is a live stream, or a callable"
                          : table->rows < 0    ? "has tensors"
                          : table->version < 0 ? "has no version, at the server that this relay fetches it from"
                                               : nullptr;
  if (why == nullptr) return;
  throw UnsupportedError(in_quotes(name) + " " + why +
                         ": there are no batch statistics of it, and no parts of it can be " +
                         "requested; get it as a whole");
}

}  // namespace

struct Catalog::Choice {
  std::shared_ptr<const PublishedTable> table{};  ///< Null for a live stream.
  bool host_copy = false;                         ///< Of the table, which is on a device.
  WayAnswer way{};
};

// Decides what a consumer gets of a source, and how. Changes nothing.
Catalog::Choice Catalog::choose(const std::string& name, const Item& item, const transport::Connection& asking) {
  if (item.table) {
    if (needs_host_copy(*item.table, asking)) return {item.table, true, way_of(asking, item.table.get(), true)};
    const auto& table = is_for_others(*item.table, asking) ? item.table_for_others : item.table;
    return {table, false, way_of(asking, table.get())};
  }
  if (asking.agreement().role != ChannelRole::kBoth) {
    throw UnsupportedError(in_quotes(name) +
                           " is a live stream, which can only be sent on one connection: connect with one URI, or "
                           "publish it as a table");
  }
  const WayAnswer way = way_of(asking, nullptr);
  if (!asking.agreement().same_user && way.way != transport::Way::kMessage) {
    throw PermissionError(in_quotes(name) +
                          " is a live stream, whose memory is reused and can only be sent to processes of the "
                          "server's own user; publish it as a table for others");
  }
  return {.way = way};
}

std::shared_ptr<const PublishedTable> Catalog::publish(const std::string& name, Source source,
                                                       const PublishOptions& options,
                                                       std::optional<std::int64_t> version) {
  std::vector<Prepared> one;
  one.push_back(prepare(name, std::move(source), options, version));
  std::shared_ptr<const PublishedTable> table = one.front().table();
  commit(std::move(one));
  return table;
}

Catalog::Prepared Catalog::prepare(const std::string& name, Source source, const PublishOptions& options,
                                   std::optional<std::int64_t> version) {
  check_name(name);
  if (access_.asks() && flight::TicketKeys::looks_signed(name)) {
    throw InvalidArgumentError(in_quotes(name) + " begins as a signed ticket, and this server takes tickets");
  }
  if (options.times != 0 && (source.kind() == Source::Kind::kLive || source.kind() == Source::Kind::kFactory)) {
    throw InvalidArgumentError("a live stream is for one consumer, and a callable for any number: leave `times` out");
  }
  const bool from_stream = source.kind() == Source::Kind::kTable || source.kind() == Source::Kind::kLive;
  if ((from_stream && !source.stream_) || (source.kind() == Source::Kind::kFactory && !source.make_)) {
    throw InvalidArgumentError("the source for " + in_quotes(name) + " is null, or was published before");
  }
  if (from_stream && !source.stream_->schema()) {
    throw InvalidArgumentError("the stream for " + in_quotes(name) + " has no schema: BatchStream::schema() gave null");
  }
  {
    // Reading a source may take long: check these errors before it as well as after it.
    const std::lock_guard lock(mutex_);
    check_takes_sources();
    if (!options.replace && items_.contains(name)) {
      throw InvalidArgumentError(in_quotes(name) +
                                 " is already published, and it isn't to be replaced: withdraw it first, or publish it "
                                 "with replace=True");
    }
  }
  auto item = std::make_shared<Item>();
  const std::int64_t own = version.value_or(first_version_ + next_version_.fetch_add(1, std::memory_order_relaxed));
  switch (source.kind()) {
    case Source::Kind::kTable:
      item->table = publish_stream(*source.stream_, *options_.runtime, options.wait, own);
      break;
    case Source::Kind::kTensors:
      item->table = publish_tensors(source.tensors_, *options_.runtime, options.wait, own);
      break;
    case Source::Kind::kFile: {
      item->table = publish_file(source.path_, source.stability_, *options_.runtime, options_.limits, own);
      // Sealed memory may be given to all users: no second copy is needed.
      const bool sealed = std::string_view(item->table->kind) == "snapshot";
      item->table_for_others = seals_files_ && !sealed ? publish_file(source.path_, Stability::kSnapshot,
                                                                      *options_.runtime, options_.limits, own)
                                                       : item->table;
      break;
    }
    case Source::Kind::kLive: {
      item->kind = "live";
      item->one_shot = true;
      item->schema = source.stream_->schema();
      // std::function requires a copyable callable, so the stream is in a shared_ptr. There is only one stream.
      auto stream = std::make_shared<std::unique_ptr<array::BatchStream>>(std::move(source.stream_));
      item->make = std::make_shared<SourceReader::Make>([stream] { return std::move(*stream); });
      break;
    }
    case Source::Kind::kFactory:
      item->kind = "factory";
      item->make = std::make_shared<SourceReader::Make>(std::move(source.make_));
      break;
  }
  if (item->table) {
    item->times = options.times;
    item->kind = item->table->kind;
    item->schema = item->table->schema;
    if (!item->table_for_others) item->table_for_others = item->table;
  }
  Prepared prepared;
  prepared.of_ = this;
  prepared.name_ = name;
  prepared.item_ = std::move(item);
  prepared.replace_ = options.replace;
  return prepared;
}

void Catalog::commit(std::vector<Prepared> sources, const std::vector<std::string>& withdrawn) {
  Items added;  // takes all the memory before the first change
  std::map<std::string, bool, std::less<>> replaces;
  for (Prepared& source : sources) {
    if (source.of_ != this) {
      throw InvalidArgumentError(in_quotes(source.name_) +
                                 " was prepared by another server, whose rules it was checked by");
    }
    if (!added.try_emplace(source.name_, source.item_).second) {
      throw InvalidArgumentError(in_quotes(source.name_) + " is to be published twice at once");
    }
    replaces.emplace(source.name_, source.replace_);
  }
  Items removed;  // destroyed without the lock: a last owner may run a producer's release
  {
    const std::lock_guard lock(mutex_);
    check_takes_sources();
    for (const auto& [name, replace] : replaces) {
      if (!replace && items_.contains(name)) {
        throw InvalidArgumentError(in_quotes(name) + " was meanwhile published by another thread; withdraw it first");
      }
    }
    for (const std::string& name : withdrawn) {
      if (!items_.contains(name)) throw_not_found(name);
      if (added.contains(name)) throw InvalidArgumentError(in_quotes(name) + " is to be published, and withdrawn");
    }
    for (const std::string& name : withdrawn) {
      auto node = items_.extract(name);
      if (node.empty()) continue;  // a name may be there twice
      keep_copies_of(*node.mapped());
      removed.insert(std::move(node));
    }
    while (!added.empty()) {
      auto node = added.extract(added.begin());
      if (node.mapped()->table) bitmap_bytes_copied_ += node.mapped()->table->bitmap_bytes_copied;
      auto place = items_.insert(std::move(node));
      if (place.inserted) continue;
      keep_copies_of(*place.position->second);
      place.position->second.swap(place.node.mapped());
      removed.insert(std::move(place.node));
    }
    forget_listings();
    ++changes_;
  }
  if (removed.size() < 2) return;
  // To free many files that were replaced may take a disk seconds: another thread does it.
  for (auto& [name, item] : removed) {
    if (item->table) release_memory(std::move(item), kOnAnotherThread);
  }
}

void Catalog::refuse_requests() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

// A relay's streams under way may still wait for what it fetches. Call it with the lock held.
void Catalog::check_takes_sources() const {
  if (upstream_ == nullptr || closed_) check_takes_requests();
}

// Call it with the lock held.
void Catalog::check_open() const {
  if (closed_) throw ClosedError("the server was closed");
}

// Call it with the lock held.
void Catalog::check_takes_requests() const {
  check_open();
  if (refuses_) {
    throw ClosedError(
        "the server is about to end, and takes no new requests: try again when it has been started again");
  }
}

// Leaves room for as many changes as a server can make.
std::int64_t Catalog::random_version() {
  std::random_device source;
  return static_cast<std::int64_t>(((static_cast<std::uint64_t>(source()) << 32) | source()) >> 2);
}

void Catalog::withdraw(const std::string& name) {
  std::shared_ptr<Item> item;  // destroyed without the lock: its last owner may run a producer's release
  const std::lock_guard lock(mutex_);
  check_open();
  const auto found = items_.find(name);
  if (found == items_.end()) throw_not_found(name);
  item = remove(found);
}

// Takes an item out of the catalog. Call it with the lock held, and drop the result without it.
std::shared_ptr<Catalog::Item> Catalog::remove(Items::iterator which) {
  keep_copies_of(*which->second);
  std::shared_ptr<Item> item = std::move(which->second);
  items_.erase(which);
  forget_listings();
  ++changes_;
  return item;
}

std::shared_ptr<const PublishedTable> Catalog::held(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(name);
  return found == items_.end() ? nullptr : found->second->table;
}

std::uint64_t Catalog::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void Catalog::drop(std::string_view name) {
  std::shared_ptr<Item> item;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (const auto found = items_.find(name); found != items_.end()) item = remove(found);
}

std::size_t Catalog::evict(std::uint64_t bytes, const std::function<std::uint64_t(const PublishedTable&)>& size_of) {
  std::vector<std::shared_ptr<Item>> evicted;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  std::vector<Items::iterator> unused;
  for (auto at = items_.begin(); at != items_.end(); ++at) {
    const Item& item = *at->second;
    // The item's own owners. Streams are others, from their request until the consumer's last batch is released.
    const long own = item.table == item.table_for_others ? 2 : 1;
    if (item.table && !item.host_copy && item.table.use_count() <= own) unused.push_back(at);
  }
  std::ranges::sort(unused, {}, [](Items::iterator at) { return at->second->last_request; });
  std::size_t first = 0;
  for (std::uint64_t freed = 0; freed < bytes; ++first) {
    if (first == unused.size()) return 0;
    freed += size_of(*unused[first]->second->table);
  }
  for (std::size_t i = 0; i < first; ++i) evicted.push_back(remove(unused[i]));
  return first;
}

bool Catalog::on_source_thread() const noexcept { return sources_->on_its_thread() || tables_.on_its_thread(); }

void Catalog::close() {
  if (on_source_thread()) {
    throw InvalidArgumentError(
        "a source can't close the server that reads it, because closing waits for the source; close the server in "
        "another thread");
  }
  const std::lock_guard lock(mutex_);
  closed_ = true;
  // Needs no memory, because close() may run in a destructor.
  if (closed_items_.empty()) closed_items_.swap(items_);
  forget_listings();
  ++changes_;
  sources_->close();
  tables_.close();
}

void Catalog::wait_for_sources(const transport::InterruptHook& interrupted) {
  if (!sources_->wait(interrupted) || !tables_.wait(interrupted)) {
    throw InterruptedError(
        "closing the server was interrupted while it waited for a source; the server is closed, and another close() "
        "waits for the source");
  }
  // Destroyed without the lock: a last owner may run a producer's release.
  decltype(items_) items;
  const std::lock_guard lock(mutex_);
  items.swap(closed_items_);
}

std::unique_ptr<ServerStream> Catalog::open(const dissociated::Request& request, const transport::Connection& asking,
                                            const std::shared_ptr<const CountedStream>& counted,
                                            const std::shared_ptr<ConnectionWaker>& waker) {
  const std::string name = access_.name_in(request.ticket, asking.agreement().authenticated);
  if (name.empty() && request.has_parameters()) {
    throw UnsupportedError("the catalog comes as a whole: there are no batch statistics of it");
  }
  if (name.empty() && upstream_ == nullptr) return open_listing(asking);
  std::shared_ptr<Item> withdrawn;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  check_takes_requests();
  const auto found = items_.find(name);
  if (upstream_ != nullptr && (found == items_.end() || !upstream_->is_current(name, found->second->table->version))) {
    return open_fetched(name, request, asking, waker);
  }
  // Who has a ticket for one name alone isn't told others.
  if (found == items_.end()) throw_not_found(name, !access_.asks() || asking.agreement().authenticated);
  Item& item = *found->second;
  item.last_request = ++requests_;
  const Choice choice = choose(found->first, item, asking);
  check_parameters(found->first, choice.table.get(), request);
  if (request.batch_statistics) return open_batch_statistics(choice.table, *request.batch_statistics, asking, waker);
  if (choice.table) {
    auto stream = choice.host_copy ? open_host_copy(&item, request, asking, choice.way, waker)
                                   : open_table(choice.table, asking, choice.way, request.batches);
    if (!asks_for_schema(request) && ++item.streams == item.times) withdrawn = remove(found);
    return stream;
  }
  if (item.consumed) {
    throw ConsumedError(in_quotes(found->first) +
                        " is a stream that can be read once, and was given to another consumer; publish a callable, "
                        "which makes a new stream for each");
  }
  return open_source(found->first, &item, choice.way, counted, waker);
}

std::shared_ptr<const device::Region> Catalog::region_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  check_takes_requests();
  const auto found = items_.find(name);
  if (found == items_.end()) throw_not_found(name);
  const auto& table = found->second->table_for_others;
  if (!table || table->regions.size() != 1 || table->on_device()) {
    throw UnsupportedError(shown(name) +
                           " has no location with a remote_handle: that is for a table in one region of " +
                           "host memory, and this is " +
                           (!table               ? std::string("a live stream")
                            : table->on_device() ? "in memory of a device"
                                                 : "in " + std::to_string(table->regions.size()) + " regions"));
  }
  return table->regions.front();
}

// Opens a stream that begins once the upstream has said that what is published is current, or has published it anew.
// The empty name is that of the catalog. The stream keeps a reference to `asking`, which outlives it.
std::unique_ptr<ServerStream> Catalog::open_fetched(std::string_view name, const dissociated::Request& request,
                                                    const transport::Connection& asking,
                                                    const std::shared_ptr<ConnectionWaker>& waker) {
  std::erase_if(fetches_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<FetchTask>& known = fetches_[std::string(name)];
  std::shared_ptr<FetchTask> fetch = known.lock();
  if (!fetch || fetch->sealed() || fetch->failed() || fetch->made()) {
    fetch = std::make_shared<FetchTask>(*upstream_, std::string(name));
    fetch->start(*sources_);
    known = fetch;
  }
  // The way isn't known before the table's memory is.
  const WayAnswer none{transport::Way::kMessage, ""};
  using Sends = TableTaskStream::Sends;
  const auto begin = [this, &asking, waker, of = std::string(name), batches = request.batches,
                      statistics = request.batch_statistics](const std::shared_ptr<const PublishedTable>& table) {
    check_parameters(of, table.get(), {.batches = batches, .batch_statistics = statistics});
    if (statistics) return open_batch_statistics(table, *statistics, asking, waker);
    if (!batches || !batches->empty()) count_request(of, *table);
    return open_table(table, asking, way_of(asking, table.get()), batches);
  };
  return std::make_unique<TableTaskStream>(std::move(fetch), waker, none, begin,
                                           request.batch_statistics ? Sends::kAnother : Sends::kTable);
}

// The stream keeps a reference to `asking`, which outlives it.
std::unique_ptr<ServerStream> Catalog::open_batch_statistics(const std::shared_ptr<const PublishedTable>& table,
                                                             const std::vector<std::string>& columns,
                                                             const transport::Connection& asking,
                                                             const std::shared_ptr<ConnectionWaker>& waker) {
  // The way isn't known before the memory of the statistics is.
  const WayAnswer none{transport::Way::kMessage, ""};
  return std::make_unique<TableTaskStream>(BatchStatisticsCache::task(table, columns, tables_), waker, none,
                                           [&asking](const std::shared_ptr<const PublishedTable>& statistics) {
                                             return open_table(statistics, asking, way_of(asking, statistics.get()));
                                           });
}

void Catalog::count_request(const std::string& name, const PublishedTable& table) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(name);
  if (found == items_.end() || found->second->table.get() != &table) return;  // evicted meanwhile, or replaced
  ++found->second->streams;
  found->second->last_request = ++requests_;
}

// The stream keeps a reference to `asking`, which outlives it.
std::unique_ptr<ServerStream> Catalog::open_host_copy(Item* item, const dissociated::Request& request,
                                                      const transport::Connection& asking, const WayAnswer& way,
                                                      const std::shared_ptr<ConnectionWaker>& waker) {
  if (!item->host_copy || item->host_copy->failed()) {
    auto copy = std::make_shared<HostCopy>(item->table);
    copy->start(tables_);
    item->host_copy = std::move(copy);
  }
  const auto begin = [&asking, way, batches = request.batches](const std::shared_ptr<const PublishedTable>& copy) {
    return open_table(copy, asking, way, batches, true);
  };
  return std::make_unique<TableTaskStream>(item->host_copy, waker, way, begin);
}

std::unique_ptr<ServerStream> Catalog::open_source(const std::string& name, Item* item, const WayAnswer& way,
                                                   const std::shared_ptr<const CountedStream>& counted,
                                                   const std::shared_ptr<ConnectionWaker>& waker) {
  const std::uint32_t left = counted->consumer()->abandoned();
  if (options_.max_connections != 0 && left >= options_.max_connections) {
    throw LeaseLimitError("this consumer has disconnected from " + std::to_string(left) +
                          " streams whose sources are still in a call, and each counts as one of the server's "
                          "connections (max_connections is " +
                          std::to_string(options_.max_connections) + "): " + in_quotes(name) +
                          " can start when they return");
  }
  auto source = SourceReader::start({.make = item->make,
                                     .counted = counted,
                                     .queue_limit = options_.window,
                                     .by_value = way.way == transport::Way::kMessage,
                                     .waker = waker,
                                     .bytes_copied = item->bytes_copied,
                                     .runtime = options_.runtime});
  ++item->streams;
  if (item->one_shot) {
    item->consumed = true;
    item->make = nullptr;
  }
  try {
    return std::make_unique<LiveStream>(source, way);
  } catch (...) {
    source->abandon();
    throw;
  }
}

Catalog::Answer Catalog::answer_to(const std::string& name, const Item& item, const transport::Connection& asking) {
  const ChannelRole role = asking.agreement().role;
  if (role == ChannelRole::kMetadata) return {{}, "this connection carries no bodies"};
  if (!item.table && role != ChannelRole::kBoth) return {{}, "a live stream goes over one connection alone"};
  try {
    const Choice choice = choose(name, item, asking);
    return {choice.way.way, choice.way.why};
  } catch (const PermissionError&) {
    return {{}, "a live stream's memory goes to processes of the server's own user alone"};
  } catch (const Error&) {
    return {{}, "the two ends have no way in common that fits this source"};
  }
}

std::unique_ptr<ServerStream> Catalog::open_listing(const transport::Connection& asking) {
  std::vector<CatalogRow> rows;
  std::vector<Answer> answers;
  std::uint64_t seen = 0;
  {
    const std::lock_guard lock(mutex_);
    check_takes_requests();
    for (const auto& [name, item] : items_) answers.push_back(answer_to(name, *item, asking));
    // They are shared so that a client that requests the catalog repeatedly, and releases nothing, can't exhaust memory
    // and descriptors.
    std::erase_if(listings_, [](const Listing& listing) { return listing.table.expired(); });
    const auto made = std::ranges::find(listings_, answers, &Listing::answers);
    if (auto table = made != listings_.end() ? made->table.lock() : nullptr) {
      last_listing_ = table;
      return open_table(table, asking, way_of(asking, table.get()));
    }
    seen = changes_;
    auto answer = answers.begin();
    for (const auto& [name, item] : items_) {
      CatalogRow row{name, item->schema};
      if (item->table) {
        row.rows = item->table->rows;
        row.bytes = static_cast<std::int64_t>(item->table->bytes);
        row.device = item->table->device();
      }
      if (item->table) row.version = item->table->version;
      if (answer->way) row.way = transport::way_name(*answer->way);
      row.why = (answer++)->why;
      rows.push_back(std::move(row));
    }
  }
  auto made = publish_catalog(rows);
  const std::lock_guard lock(mutex_);
  if (seen == changes_) {
    if (listings_.size() == kMostListings) listings_.erase(listings_.begin());
    listings_.push_back({std::move(answers), made});
    last_listing_ = made;
  }
  return open_table(made, asking, way_of(asking, made.get()));
}

flight::Flight Catalog::describe(const std::string& name, const Item& item) {
  flight::Flight flight{.name = name};
  if (item.table) {
    const ByteSpan schema = item.table->metadata_of(item.table->messages.front());
    flight.schema.assign(schema.begin(), schema.end());
    flight.rows = item.table->rows;
    flight.bytes = static_cast<std::int64_t>(item.table->bytes);
  } else if (item.schema) {
    flight.schema = schema_message(*item.schema, -1);
  }
  return flight;
}

std::vector<flight::Flight> Catalog::flights() const {
  const std::lock_guard lock(mutex_);
  check_takes_requests();
  std::vector<flight::Flight> flights;
  flights.reserve(items_.size());
  for (const auto& [name, item] : items_) flights.push_back(describe(name, *item));
  return flights;
}

flight::Flight Catalog::flight(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  check_takes_requests();
  const auto found = items_.find(name);
  if (found == items_.end()) throw_not_found(name);
  return describe(found->first, *found->second);
}

void Catalog::forget_listings() noexcept {
  listings_.clear();
  last_listing_.reset();
}

// `lists`: whether the error may tell the other names.
void Catalog::throw_not_found(std::string_view name, bool lists) const {
  if (!lists) throw NotFoundError("nothing is published as " + shown(name));
  // Those that begin like it come first: it may be misspelt. They are its neighbours, so that a request for a name that
  // isn't there doesn't look at all names. `first` to `last` are listed already.
  const auto in_common = [&](const Items::const_iterator& item) {
    return static_cast<std::size_t>(std::ranges::mismatch(name, item->first).in1 - name.begin());
  };
  auto first = items_.lower_bound(name);
  auto last = first;
  std::string known;
  std::size_t room = 10;
  const auto list = [&](const Items::const_iterator& item) {
    known += (known.empty() ? "" : ", ") + in_quotes(item->first);
    --room;
  };
  while (room > 0 && (first != items_.begin() || last != items_.end())) {
    std::size_t most = 0;
    if (first != items_.begin()) most = in_common(std::prev(first));
    if (last != items_.end()) most = std::max(most, in_common(last));
    const auto begin = items_.lower_bound(name.substr(0, most));
    for (auto item = begin; item != first && room > 0; ++item) list(item);
    for (; last != items_.end() && room > 0 && in_common(last) == most; ++last) list(last);
    first = begin;
  }
  if (items_.size() > 10) known += ", ...";
  throw NotFoundError("nothing is published as " + (is_text_name(name) ? shown(name) : in_quotes(name)) +
                      (known.empty() ? "; the catalog is empty" : "; the catalog has " + known));
}

std::uint64_t Catalog::Item::all_bytes_copied() const noexcept {
  if (!table) return bytes_copied->load(std::memory_order_relaxed);
  std::uint64_t copied = table->bytes_copied;
  if (host_copy) copied += host_copy->bytes_copied();
  if (table_for_others != table) copied += table_for_others->bytes_copied;
  return copied;
}

// Keeps the count of an item that is removed, so that the sum over all sources never decreases. Streams of a live
// source go on and count further. Call it with the lock held.
void Catalog::keep_copies_of(const Item& item) {
  std::erase_if(still_copied_, [this](const auto& count) {
    if (count.use_count() > 1) return false;
    bytes_copied_ += count->load(std::memory_order_relaxed);
    return true;
  });
  if (item.table) {
    bytes_copied_ += item.all_bytes_copied();
  } else {
    still_copied_.push_back(item.bytes_copied);
  }
}

void Catalog::add_stats(ServerStats* stats) const {
  if (upstream_ != nullptr) stats->relay = upstream_->stats();
  const std::lock_guard lock(mutex_);
  stats->bytes_copied += bytes_copied_;
  for (const auto& count : still_copied_) stats->bytes_copied += count->load(std::memory_order_relaxed);
  for (const auto& [name, item] : items_) {
    SourceStats source;
    source.name = name;
    source.kind = item->kind;
    source.streams = item->streams;
    source.bytes_copied = item->all_bytes_copied();
    if (item->table) {
      source.rows = item->table->rows;
      source.bytes = static_cast<std::int64_t>(item->table->bytes);
    }
    stats->bytes_copied += source.bytes_copied;
    stats->sources.push_back(std::move(source));
  }
  stats->bitmap_bytes_copied += bitmap_bytes_copied_;
}

}  // namespace crossdock::session
