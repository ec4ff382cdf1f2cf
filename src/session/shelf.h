#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/session/server.h"
#include "crossdock/transport/transport.h"
#include "session/live_stream.h"
#include "session/published_table.h"
#include "session/server_stream.h"
#include "session/waker.h"

namespace crossdock::session {

/// What a server has to give, by name. Thread-safe: users publish and withdraw, the I/O thread opens streams.
class Shelf {
 public:
  /// `others`: whether users other than our own may connect and share memory.
  Shelf(const ServerOptions& options, bool others)
      : options_(options), others_(others), waker_(std::make_shared<Waker>()) {}

  /// Gives back the table if it lies in a file, which may change under it; else null.
  std::shared_ptr<const PublishedTable> publish(const std::string& name, Source source, PublishOptions options);
  void withdraw(const std::string& name);
  /// Nothing is published any more, and the sources' threads are told to stop. Throws InvalidArgumentError on such a
  /// thread, with nothing done.
  void close();
  /// Waits for the sources' threads; only without the GIL, and after close(). Throws InterruptedError; the threads are
  /// then the next call's to wait for.
  void join_pullers(const transport::InterruptHook& interrupted);

  /// The stream that a ticket names; the empty ticket is the catalogue. I/O thread: never waits for a source. Throws
  /// what the consumer is told: NotFoundError, ConsumedError, PermissionError, UnsupportedError (a live stream over
  /// two connections).
  std::unique_ptr<ServerStream> open(std::string_view ticket, const transport::Connection& consumer);

  void add_stats(ServerStats* stats) const;
  const std::shared_ptr<Waker>& waker() const noexcept { return waker_; }

 private:
  struct Item {
    std::string kind;
    std::shared_ptr<const array::Schema> schema;
    std::shared_ptr<const PublishedTable> table;  // tables and files
    std::shared_ptr<const PublishedTable>
        table_for_others;  // a file's sealed copy, for users who mustn't see it change
    Puller::Make make;     // live and factory
    bool one_shot = false;
    bool consumed = false;
    std::vector<std::shared_ptr<Puller>> pullers;
    std::uint64_t copied_by_finished = 0;
    std::uint64_t consumers = 0;
  };

  std::unique_ptr<ServerStream> open_catalogue(bool by_value);
  std::shared_ptr<Puller> unfinished() const;
  void reserve_retired(const Item& item);
  void retire_pullers(Item& item);
  [[noreturn]] void throw_not_found(std::string_view name) const;

  const ServerOptions& options_;
  const bool others_;
  std::shared_ptr<Waker> waker_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Item>, std::less<>> items_;
  decltype(items_) closed_items_;  // what was published at the end: their threads are still to be joined
  std::vector<std::shared_ptr<Puller>> withdrawn_;   // still to be joined
  std::shared_ptr<const PublishedTable> catalogue_;  // one for all who ask, until it changes; null: to be made
  std::uint64_t changes_ = 0;                        // to the catalogue
  std::uint64_t bitmap_bytes_copied_ = 0;
  bool closed_ = false;
};

}  // namespace crossdock::session
