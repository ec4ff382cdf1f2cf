#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/session/server.h"
#include "dissociated/request.h"
#include "flight/service.h"
#include "session/consumer.h"
#include "session/host_copy.h"
#include "session/published_table.h"
#include "session/server_stream.h"
#include "session/source_pool.h"
#include "session/source_reader.h"
#include "session/upstream.h"
#include "session/waker.h"
#include "session/way.h"
#include "transport/transport.h"

namespace crossdock::session {

/// The published sources of a server, by name. Thread-safe: users publish and withdraw, the I/O thread opens streams, a
/// Flight server lists them.
class Catalog final : public flight::Directory {
 public:
  /// `access`: who may ask for what, with which tickets. `seals_files`: whether files are sent to some clients as
  /// sealed copies. `upstream`: where the sources come from, of a relay; it must outlive the catalog. Null: from
  /// publish() alone.
  Catalog(const ServerOptions& options, const flight::Access& access, bool seals_files, Upstream* upstream = nullptr)
      : options_(options),
        access_(access),
        seals_files_(seals_files),
        upstream_(upstream),
        waker_(std::make_shared<Waker>()),
        sources_(std::make_shared<SourcePool>(SourcePool::Options{.threads = options.source_threads})),
        consumers_(options.lease_limit, sources_),
        first_version_(random_version()) {}

  /// A source that was read, for commit(). Destroying it frees the source.
  class Prepared;
  /// Reads a source, which takes as long as it takes, and publishes nothing. `version`: of a relay's table. Absent: a
  /// new one. Throws as Server::prepare().
  Prepared prepare(const std::string& name, Source source, const PublishOptions& options,
                   std::optional<std::int64_t> version = {});
  /// Publishes all sources, and withdraws the other names, in one step. If it throws, nothing has changed.
  void commit(std::vector<Prepared> sources, const std::vector<std::string>& withdrawn = {});
  /// Does both for one source. Returns the table; null for a live stream or a factory.
  std::shared_ptr<const PublishedTable> publish(const std::string& name, Source source, const PublishOptions& options,
                                                std::optional<std::int64_t> version = {});
  void withdraw(const std::string& name);
  /// Returns the table that is published under this name; null if there is none.
  std::shared_ptr<const PublishedTable> held(std::string_view name) const;
  /// The number of changes: of names, and of what is published under them.
  std::uint64_t changes() const;
  /// Withdraws a name if it is published.
  void drop(std::string_view name);
  /// Withdraws tables that no consumer reads or holds, those first whose last request is the longest ago, until they
  /// have taken `bytes`, by what `size_of` says of each. Withdraws none if all of them take less. Returns how many.
  /// `size_of` is called with the catalog's lock held.
  std::size_t evict(std::uint64_t bytes, const std::function<std::uint64_t(const PublishedTable&)>& size_of);
  /// Refuses requests and new sources from now on. Streams under way continue.
  void refuse_requests();
  /// True on a thread that reads sources of this catalog: such a thread must not wait for them.
  bool on_source_thread() const noexcept;
  /// Withdraws all names, and tells the sources to stop. Throws InvalidArgumentError, and does nothing, on a thread
  /// that reads sources.
  void close();
  /// Waits for the sources. Call it without the GIL, and after close(). Throws InterruptedError; the next call then
  /// continues to wait for the sources.
  void wait_for_sources(const transport::InterruptHook& interrupted);

  /// Returns the one region of host memory in which the bodies of a table lie. Throws NotFoundError, UnsupportedError.
  std::shared_ptr<const device::Region> region_of(std::string_view name) const;

  /// Returns the consumer that a new connection belongs to. I/O thread.
  std::shared_ptr<Consumer> consumer_of(const transport::Agreement& peer) { return consumers_.of(peer); }
  /// Number of sources that no consumer reads any more, but that are still in a call of their producer.
  std::size_t abandoned_sources() const noexcept { return sources_->abandoned().load(std::memory_order_relaxed); }

  /// Opens the stream that is requested; the empty name is the catalog's. I/O thread: never waits for a source.
  /// `counted` counts the stream until its source has ended. `waker` is notified when a stream that had nothing to send
  /// may have something. Throws the error that the consumer receives: NotFoundError, ConsumedError, PermissionError
  /// (also for the ticket), UnsupportedError (a live stream over two connections, or with parameters), LeaseLimitError
  /// (the consumer has left too many sources that haven't ended), ResourceError.
  std::unique_ptr<ServerStream> open(const dissociated::Request& request, const transport::Connection& asking,
                                     const std::shared_ptr<const CountedStream>& counted,
                                     const std::shared_ptr<ConnectionWaker>& waker);

  // For a Flight server:
  std::vector<flight::Flight> flights() const override;
  flight::Flight flight(std::string_view name) const override;

  /// Adds the sources, what was copied for them, and what a relay counts.
  void add_stats(ServerStats* stats) const;
  const std::shared_ptr<Waker>& waker() const noexcept { return waker_; }

 private:
  static constexpr unsigned kTableThreads = 8;

  struct Item {
    std::string kind;
    std::shared_ptr<const array::Schema> schema;
    // For tables and files:
    std::shared_ptr<const PublishedTable> table;
    std::shared_ptr<HostCopy> host_copy;                     // of a table on a device; null until a consumer needs it
    std::shared_ptr<const PublishedTable> table_for_others;  // sealed copy of a file, for those who mustn't see changes
    // For live sources and factories:
    std::shared_ptr<const SourceReader::Make> make;
    std::shared_ptr<std::atomic<std::uint64_t>> bytes_copied = std::make_shared<std::atomic<std::uint64_t>>();
    std::uint64_t all_bytes_copied() const noexcept;
    bool one_shot = false;
    bool consumed = false;
    std::uint64_t last_request = 0;  // the number of it
    std::uint64_t streams = 0;       // that were started
    std::uint64_t times = 0;         // PublishOptions::times
  };

  using Items = std::map<std::string, std::shared_ptr<Item>, std::less<>>;

 public:
  class Prepared {
   public:
    const std::string& name() const noexcept { return name_; }
    /// Null for a live stream or a factory.
    const std::shared_ptr<const PublishedTable>& table() const noexcept { return item_->table; }

   private:
    friend class Catalog;
    const Catalog* of_ = nullptr;  // only compared
    std::string name_;
    std::shared_ptr<Item> item_;
    bool replace_ = false;
  };

 private:
  /// How the bodies of one source go to one consumer; no way if they can't.
  struct Answer {
    std::optional<transport::Way> way{};
    const char* why = "";
    bool operator==(const Answer&) const = default;  // reasons are literals
  };
  /// A catalog table that was sent. It has its own memory and descriptor, and lives as long as a consumer holds it.
  struct Listing {
    std::vector<Answer> answers;  ///< Of all items.
    std::weak_ptr<const PublishedTable> table;
  };

  struct Choice;
  static std::int64_t random_version();
  static flight::Flight describe(const std::string& name, const Item& item);
  static Choice choose(const std::string& name, const Item& item, const transport::Connection& asking);
  static Answer answer_to(const std::string& name, const Item& item, const transport::Connection& asking);
  std::unique_ptr<ServerStream> open_listing(const transport::Connection& asking);
  std::unique_ptr<ServerStream> open_source(const std::string& name, Item* item, const WayAnswer& way,
                                            const std::shared_ptr<const CountedStream>& counted,
                                            const std::shared_ptr<ConnectionWaker>& waker);
  std::unique_ptr<ServerStream> open_fetched(std::string_view name, const dissociated::Request& request,
                                             const transport::Connection& asking,
                                             const std::shared_ptr<ConnectionWaker>& waker);
  void check_open() const;
  void check_takes_requests() const;
  void check_takes_sources() const;
  void count_request(const std::string& name, const PublishedTable& table);
  std::unique_ptr<ServerStream> open_batch_statistics(const std::shared_ptr<const PublishedTable>& table,
                                                      const std::vector<std::string>& columns,
                                                      const transport::Connection& asking,
                                                      const std::shared_ptr<ConnectionWaker>& waker);
  std::unique_ptr<ServerStream> open_host_copy(Item* item, const dissociated::Request& request,
                                               const transport::Connection& asking, const WayAnswer& way,
                                               const std::shared_ptr<ConnectionWaker>& waker);
  std::shared_ptr<Item> remove(Items::iterator which);
  void keep_copies_of(const Item& item);
  void forget_listings() noexcept;
  [[noreturn]] void throw_not_found(std::string_view name, bool lists = true) const;

  const ServerOptions& options_;
  const flight::Access& access_;
  const bool seals_files_;
  Upstream* const upstream_;
  std::shared_ptr<Waker> waker_;
  const std::shared_ptr<SourcePool> sources_;
  // Threads for work on tables that calls no producer: batch statistics, copies on the host. It has threads of its own,
  // because those of sources may all be in calls that don't return.
  SourcePool tables_{SourcePool::Options{.threads = kTableThreads, .begin_limit = std::chrono::milliseconds{0}}};
  Consumers consumers_;  // used by the I/O thread only
  mutable std::mutex mutex_;
  Items items_;
  Items closed_items_;  // published when the server was closed; wait_for_sources() waits for them
  // Shared by all requests until a name changes. Few: consumers of one transport get the same answers.
  std::vector<Listing> listings_;
  std::shared_ptr<const PublishedTable> last_listing_;  // kept for the next request
  std::uint64_t changes_ = 0;                           // number of changes of the catalog
  const std::int64_t first_version_;                    // random, so that those of another server differ
  std::atomic<std::int64_t> next_version_{0};           // counted from there
  std::map<std::string, std::weak_ptr<FetchTask>, std::less<>> fetches_;  // by name
  std::uint64_t requests_ = 0;
  std::uint64_t bitmap_bytes_copied_ = 0;
  std::uint64_t bytes_copied_ = 0;                                               // of sources that were removed
  std::vector<std::shared_ptr<const std::atomic<std::uint64_t>>> still_copied_;  // likewise, that are still read
  bool refuses_ = false;                                                         // refuse_requests()
  bool closed_ = false;
};

}  // namespace crossdock::session
