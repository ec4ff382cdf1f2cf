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
#include "session/consumer.h"
#include "session/published_table.h"
#include "session/server_stream.h"
#include "session/source_pool.h"
#include "session/source_reader.h"
#include "session/waker.h"

namespace crossdock::session {

/// What a server has to give, by name. Thread-safe: users publish and withdraw, the I/O thread opens streams.
class Catalog {
 public:
  /// `others`: whether users other than our own may connect and share memory.
  Catalog(const ServerOptions& options, bool others)
      : options_(options),
        others_(others),
        waker_(std::make_shared<Waker>()),
        sources_(std::make_shared<SourcePool>(SourcePool::Options{.threads = options.source_threads})),
        consumers_(options.lease_limit, sources_) {}

  /// Returns the table if it lies in a file, which may change under it; else null.
  std::shared_ptr<const PublishedTable> publish(const std::string& name, Source source, PublishOptions options);
  void withdraw(const std::string& name);
  /// Nothing is published any more, and the sources are told to stop. Throws InvalidArgumentError on a thread that
  /// reads sources, with nothing done.
  void close();
  /// Waits for the sources; only without the GIL, and after close(). Throws InterruptedError; the sources are then the
  /// next call's to wait for.
  void wait_for_sources(const transport::InterruptHook& interrupted);

  /// Whom a new connection belongs to. I/O thread.
  std::shared_ptr<Consumer> consumer_of(const transport::Agreement& peer) { return consumers_.of(peer); }
  /// Sources that nobody reads any more, in a call of their producer's.
  std::size_t sources_left_behind() const noexcept { return sources_->left_behind().load(std::memory_order_relaxed); }

  /// The stream that a ticket names; the empty ticket is the catalog. I/O thread: never waits for a source. Throws
  /// what the consumer is told: NotFoundError, ConsumedError, PermissionError, UnsupportedError (a live stream over
  /// two connections), LeaseLimitError (the consumer has left too many sources behind), ResourceError. `counted` counts
  /// until the source has ended. `waker` is told when a stream that had nothing may have something.
  std::unique_ptr<ServerStream> open(std::string_view ticket, const transport::Connection& asking,
                                     const std::shared_ptr<const CountedStream>& counted,
                                     const std::shared_ptr<ConnectionWaker>& waker);

  void add_stats(ServerStats* stats) const;
  const std::shared_ptr<Waker>& waker() const noexcept { return waker_; }

 private:
  struct Item {
    std::string kind;
    std::shared_ptr<const array::Schema> schema;
    std::shared_ptr<const PublishedTable> table;  // tables and files
    std::shared_ptr<const PublishedTable>
        table_for_others;                            // a file's sealed copy, for users who mustn't see it change
    std::shared_ptr<const SourceReader::Make> make;  // live and factory
    std::shared_ptr<std::atomic<std::uint64_t>> bytes_copied =
        std::make_shared<std::atomic<std::uint64_t>>();  // of these
    bool one_shot = false;
    bool consumed = false;
    std::uint64_t consumers = 0;
  };

  std::unique_ptr<ServerStream> open_listing(bool by_value);
  std::unique_ptr<ServerStream> open_source(const std::string& name, Item* item, bool by_value,
                                            const std::shared_ptr<const CountedStream>& counted,
                                            const std::shared_ptr<ConnectionWaker>& waker);
  [[noreturn]] void throw_not_found(std::string_view name) const;

  const ServerOptions& options_;
  const bool others_;
  std::shared_ptr<Waker> waker_;
  const std::shared_ptr<SourcePool> sources_;
  Consumers consumers_;  // of the I/O thread alone
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Item>, std::less<>> items_;
  decltype(items_) closed_items_;  // what was published at the end: the sources are still to be waited for
  std::shared_ptr<const PublishedTable> listing_;  // one for all who ask, until it changes; null: to be made
  std::uint64_t changes_ = 0;                      // to the catalog
  std::uint64_t bitmap_bytes_copied_ = 0;
  bool closed_ = false;
};

}  // namespace crossdock::session
