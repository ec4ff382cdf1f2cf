#include "session/shelf.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/core/text.h"
#include "session/catalogue.h"
#include "session/source_access.h"

namespace crossdock::session {
namespace {

// How long a wait goes on without asking whether it shall.
constexpr std::chrono::milliseconds kPatience{50};

void check_name(const std::string& name) {
  if (name.empty()) throw InvalidArgumentError("a published name can't be empty: the empty ticket is the catalogue");
  if (name.find('\0') != std::string::npos) throw InvalidArgumentError("a published name can't hold a NUL byte");
  if (!is_utf8(name)) {
    throw InvalidArgumentError("a published name must be UTF-8, as the catalogue's column is: " + shown(name));
  }
}

void check_source(const std::string& name, Source& source) {
  const bool from_stream = source.kind() == Source::Kind::kTable || source.kind() == Source::Kind::kLive;
  if ((from_stream && !SourceAccess::stream(source)) ||
      (source.kind() == Source::Kind::kFactory && !SourceAccess::make(source))) {
    throw InvalidArgumentError("the source for \"" + name + "\" is null, or was published before");
  }
}

// Joins the threads that have ended and whose connection is gone. Returns how many bytes they had copied.
std::uint64_t join_finished(std::vector<std::shared_ptr<Puller>>* pullers) {
  std::uint64_t copied = 0;
  std::erase_if(*pullers, [&](const std::shared_ptr<Puller>& puller) {
    if (!puller->finished() || puller.use_count() > 1) return false;
    copied += puller->bytes_copied();
    puller->join();  // its last instruction is near
    return true;
  });
  return copied;
}

}  // namespace

std::shared_ptr<const PublishedTable> Shelf::publish(const std::string& name, Source source, PublishOptions options) {
  check_name(name);
  check_source(name, source);
  {
    // Reading a source may take long: say at once what would be said in the end.
    const std::lock_guard lock(mutex_);
    if (closed_) throw ClosedError("the server was closed; \"" + name + "\" can't be published");
    if (!options.replace && items_.contains(name)) {
      throw InvalidArgumentError("\"" + name + "\" is published already; replace it, or withdraw it first");
    }
  }
  auto item = std::make_shared<Item>();
  switch (source.kind()) {
    case Source::Kind::kTable: item->table = publish_stream(*SourceAccess::stream(source), *options_.context); break;
    case Source::Kind::kFile: {
      const std::string& path = SourceAccess::path(source);
      item->table = publish_file(path, SourceAccess::stability(source), *options_.context, options_.limits);
      // Sealed memory is for everyone already.
      const bool sealed = std::string_view(item->table->kind) == "snapshot";
      item->table_for_others = others_ && !sealed
                                   ? publish_file(path, Stability::kSnapshot, *options_.context, options_.limits)
                                   : item->table;
      break;
    }
    case Source::Kind::kLive: {
      item->kind = "live";
      item->one_shot = true;
      item->schema = SourceAccess::stream(source)->schema();
      // std::function wants what it holds to be copyable; there is one stream all the same.
      auto stream = std::make_shared<std::unique_ptr<array::BatchStream>>(std::move(SourceAccess::stream(source)));
      item->make = [stream] { return std::move(*stream); };
      break;
    }
    case Source::Kind::kFactory:
      item->kind = "factory";
      item->make = std::move(SourceAccess::make(source));
      break;
  }
  if (item->table) {
    item->kind = item->table->kind;
    item->schema = item->table->schema;
    if (!item->table_for_others) item->table_for_others = item->table;
  }
  std::shared_ptr<Item> replaced;  // dropped without the lock: its last owner may run a producer's release
  const std::lock_guard lock(mutex_);
  if (closed_) throw ClosedError("the server was closed while \"" + name + "\" was being published");
  const auto [place, is_new] = items_.try_emplace(name, item);
  if (!is_new) {
    if (!options.replace) {
      throw InvalidArgumentError("\"" + name + "\" was published by another thread meanwhile; withdraw it first");
    }
    reserve_retired(*place->second);
    replaced = std::exchange(place->second, item);
    retire_pullers(*replaced);
  }
  if (item->table) bitmap_bytes_copied_ += item->table->bitmap_bytes_copied;
  catalogue_ = nullptr;
  ++changes_;
  return item->kind == "file" ? item->table : nullptr;
}

void Shelf::withdraw(const std::string& name) {
  std::shared_ptr<Item> item;  // dropped without the lock: its last owner may run a producer's release
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(name);
  if (found == items_.end()) throw_not_found(name);
  reserve_retired(*found->second);
  item = std::move(found->second);
  items_.erase(found);
  retire_pullers(*item);
  catalogue_ = nullptr;
  ++changes_;
}

// Needs the lock, as retire_pullers() does, which has room after it.
void Shelf::reserve_retired(const Item& item) { withdrawn_.reserve(withdrawn_.size() + item.pullers.size()); }

// The streams of an item that is no longer published go on; their threads are joined later.
void Shelf::retire_pullers(Item& item) {
  withdrawn_.insert(withdrawn_.end(), std::move_iterator(item.pullers.begin()), std::move_iterator(item.pullers.end()));
  item.pullers.clear();
  join_finished(&withdrawn_);
}

void Shelf::close() {
  const std::lock_guard lock(mutex_);
  const auto waits_for_itself = [](const auto& puller) { return puller->on_its_thread(); };
  if (std::ranges::any_of(withdrawn_, waits_for_itself) || std::ranges::any_of(items_, [&](const auto& entry) {
        return std::ranges::any_of(entry.second->pullers, waits_for_itself);
      })) {
    throw InvalidArgumentError(
        "a source can't close the server that reads it: closing waits for the source; let another thread close");
  }
  closed_ = true;
  // Needs no memory: a destructor may be what closes.
  for (auto& [name, item] : items_) {
    for (auto& puller : item->pullers) puller->stop();
  }
  for (auto& puller : withdrawn_) puller->stop();
  if (closed_items_.empty()) closed_items_.swap(items_);
  catalogue_ = nullptr;
  ++changes_;
}

std::shared_ptr<Puller> Shelf::unfinished() const {
  const std::lock_guard lock(mutex_);
  for (const auto& puller : withdrawn_) {
    if (!puller->finished()) return puller;
  }
  for (const auto& [name, item] : closed_items_) {
    for (const auto& puller : item->pullers) {
      if (!puller->finished()) return puller;
    }
  }
  return nullptr;
}

void Shelf::join_pullers(const transport::InterruptHook& interrupted) {
  while (const std::shared_ptr<Puller> puller = unfinished()) {
    while (!puller->wait_finished(kPatience)) {
      if (interrupted && interrupted()) {
        throw InterruptedError(
            "closing the server was interrupted in its wait for a source; it is closed, and the source's thread is "
            "waited for when close() is called again");
      }
    }
  }
  // Dropped without the lock, too: a last owner may run a producer's release.
  decltype(items_) items;
  std::vector<std::shared_ptr<Puller>> pullers;
  {
    const std::lock_guard lock(mutex_);
    items.swap(closed_items_);
    pullers.swap(withdrawn_);
  }
  for (auto& puller : pullers) puller->join();
  for (auto& [name, item] : items) {
    for (auto& puller : item->pullers) puller->join();
  }
}

std::unique_ptr<ServerStream> Shelf::open(std::string_view ticket, const transport::Connection& consumer) {
  const transport::Agreement& peer = consumer.agreement();
  const bool by_value = !consumer.shares_memory();
  if (ticket.empty()) return open_catalogue(by_value);
  const std::lock_guard lock(mutex_);
  if (closed_) throw ClosedError("the server was closed");
  const auto found = items_.find(ticket);
  if (found == items_.end()) throw_not_found(ticket);
  Item& item = *found->second;
  if (item.table) {
    ++item.consumers;
    // What goes by value is the consumer's own from then on: a file that changes later doesn't change under it.
    return std::make_unique<TableStream>(peer.same_user || by_value ? item.table : item.table_for_others, by_value);
  }
  if (peer.carries != transport::Carries::kBoth) {
    throw UnsupportedError("\"" + found->first +
                           "\" is a live stream, which goes to one connection: ask for it with one URI, or publish "
                           "it as a table");
  }
  if (!peer.same_user && !by_value) {
    throw PermissionError("\"" + found->first +
                          "\" is a live stream, whose memory is used again and so goes to processes of the server's "
                          "own user only; publish it as a table for others");
  }
  if (item.consumed) {
    throw ConsumedError("\"" + found->first +
                        "\" is a one-shot stream and was given to another consumer; publish a callable, which makes a "
                        "fresh stream for each");
  }
  item.copied_by_finished += join_finished(&item.pullers);
  join_finished(&withdrawn_);
  item.pullers.reserve(item.pullers.size() + 1);
  auto puller = Puller::start(item.make, options_.lease_limit, options_.window, waker_, by_value);
  item.pullers.push_back(puller);  // before anything can fail: what drops a puller waits for its source
  ++item.consumers;
  if (item.one_shot) {
    item.consumed = true;
    item.make = nullptr;
  }
  try {
    return std::make_unique<LiveStream>(puller);
  } catch (...) {
    puller->abandon();
    throw;
  }
}

std::unique_ptr<ServerStream> Shelf::open_catalogue(bool by_value) {
  std::vector<CatalogueRow> rows;
  std::uint64_t seen = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw ClosedError("the server was closed");
    // Each has memory and a descriptor of its own: a client that asks again and again, and releases nothing, must not
    // use those up.
    if (catalogue_) return std::make_unique<TableStream>(catalogue_, by_value);
    seen = changes_;
    for (const auto& [name, item] : items_) {
      CatalogueRow row{name, item->schema};
      if (item->table) {
        row.rows = item->table->rows;
        row.bytes = static_cast<std::int64_t>(item->table->bytes);
      }
      rows.push_back(std::move(row));
    }
  }
  auto made = publish_catalogue(rows);
  const std::lock_guard lock(mutex_);
  if (seen == changes_) catalogue_ = made;
  return std::make_unique<TableStream>(std::move(made), by_value);
}

void Shelf::throw_not_found(std::string_view name) const {
  std::string known;
  int listed = 0;
  for (const auto& [other, item] : items_) {
    if (++listed > 10) {
      known += ", ...";
      break;
    }
    known += (known.empty() ? "\"" : ", \"") + other + "\"";
  }
  throw NotFoundError("nothing is published as " + shown(name) + "; there is " +
                      (known.empty() ? std::string("nothing") : known));
}

void Shelf::add_stats(ServerStats* stats) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, item] : items_) {
    SourceStats source;
    source.name = name;
    source.kind = item->kind;
    source.consumers = item->consumers;
    if (item->table) {
      source.rows = item->table->rows;
      source.bytes = static_cast<std::int64_t>(item->table->bytes);
      source.bytes_copied = item->table->bytes_copied;
      if (item->table_for_others != item->table) source.bytes_copied += item->table_for_others->bytes_copied;
    } else {
      source.bytes_copied = item->copied_by_finished;
      for (const auto& puller : item->pullers) source.bytes_copied += puller->bytes_copied();
    }
    stats->sources.push_back(std::move(source));
  }
  stats->bitmap_bytes_copied += bitmap_bytes_copied_;
}

}  // namespace crossdock::session
