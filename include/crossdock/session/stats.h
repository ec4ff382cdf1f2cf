#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/transport/options.h"

/// The statistics of a server or a relay: plain snapshots.
namespace crossdock::session {

/// Durations, counted in buckets of a logarithmic scale. Not thread-safe.
struct DurationHistogram {
  static constexpr std::size_t kBuckets = 13;  ///< The last one is for all that is longer than limit(11), 67 s.
  /// Returns the upper limit of a bucket: 16 µs, 64 µs, 256 µs, ... The last bucket has none.
  static constexpr std::chrono::microseconds limit(std::size_t bucket) noexcept {
    return std::chrono::microseconds(std::int64_t{16} << (2 * bucket));
  }

  std::array<std::uint64_t, kBuckets> counts{};  ///< Not cumulative.
  std::chrono::nanoseconds sum{0};               ///< Of all durations.

  /// Counts `n` durations of `all` together, each as long as their mean. A negative `all` counts as 0.
  void add(std::chrono::nanoseconds all, std::uint64_t n = 1) noexcept {
    if (n == 0) return;
    if (all.count() < 0) all = {};
    const auto total = static_cast<std::uint64_t>(all.count());
    const std::uint64_t us = ((n == 1 ? total : total / n) + 999) / 1000;
    std::size_t bucket = us <= 16 ? 0 : (static_cast<std::size_t>(std::bit_width(us - 1)) - 3) / 2;
    if (bucket >= kBuckets) bucket = kBuckets - 1;
    counts[bucket] += n;
    sum += all;
  }
  /// Adds the counts and the sum of another one.
  void add(const DurationHistogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
    sum += other.sum;
  }
  bool operator==(const DurationHistogram&) const = default;
};

/// Statistics of one published name.
struct SourceStats {
  std::string name;  ///< As it was published; any bytes.
  std::string kind;  ///< "table", "tensor", "tensors", "arena", "pool", "file", "snapshot", "live", "factory", ...
  std::int64_t rows = -1;          ///< -1: not known (live), or tensors.
  std::int64_t bytes = -1;         ///< Of all bodies, with dictionaries; -1: not known (live).
  std::uint64_t bytes_copied = 0;  ///< By the one copy of heap or device data, or by the copies of a live stream.
  std::uint64_t streams = 0;       ///< That were started, since it was published.
};

/// Statistics of one connection of a client.
struct ConsumerStats {
  std::uint64_t id = 0;   ///< Of its connection: no other of this server has the same.
  std::uint32_t pid = 0;  ///< 0: on another machine, or unknown.
  std::string peer;       ///< The client in readable form, as in "tcp://10.0.0.7:55112".
  std::string name;       ///< Name of the stream that it reads; empty between streams.
  std::string previous;   ///< Name of the last stream that has ended; empty: none has. Its leases may be held still.
  std::uint64_t batches = 0;       ///< Sent since it connected, in all streams, with those of dictionaries.
  std::uint64_t rows = 0;          ///< Of these batches.
  std::uint64_t bytes = 0;         ///< Of their bodies, by reference and by value.
  std::uint64_t window = 0;        ///< Messages that it may lag behind.
  std::uint64_t in_flight = 0;     ///< Messages sent and not taken yet.
  std::uint64_t leases = 0;        ///< Buffers that it holds.
  std::uint64_t leased_bytes = 0;  ///< Of these buffers.
  std::optional<std::chrono::milliseconds> oldest_lease{};  ///< Age of the oldest lease, if there is one.
  std::uint64_t bytes_by_value = 0;                         ///< The part of `bytes` that was sent by value.
  std::string carrier;                                      ///< What moves the bytes, as in "shm" or "tcp".
  /// How the bodies of the stream that it reads go; without meaning between streams, and if `why` is empty. It is the
  /// way that the stream began with: a batch of a live stream that finds no room within the lease limit is sent by
  /// value in any case.
  transport::Way way = transport::Way::kMessage;
  /// The reason for `way`, for people. Empty for a connection that carries no bodies.
  std::string why;
};

/// Sums over all streams since the server's start, also those of consumers that have disconnected. They never decrease.
struct StreamTotals {
  std::uint64_t streams = 0;         ///< That were opened, also of the catalog, without those of statistics.
  std::uint64_t batches = 0;         ///< Sent, with those of dictionaries.
  std::uint64_t rows = 0;            ///< Of these batches.
  std::uint64_t bytes = 0;           ///< Of their bodies, by reference and by value.
  std::uint64_t bytes_by_value = 0;  ///< The part of `bytes` that was sent by value.
  /// The time from a request to the first batch that was sent, one for each stream that has sent a batch.
  DurationHistogram first_batch;
  /// The time between two batches of a stream, one for each batch but the first. The batches that are sent in one turn
  /// of the server's thread count as equally long. A consumer that is slow makes it long.
  DurationHistogram batch;

  /// Adds all counts of another one.
  void add(const StreamTotals& other) noexcept {
    streams += other.streams;
    batches += other.batches;
    rows += other.rows;
    bytes += other.bytes;
    bytes_by_value += other.bytes_by_value;
    first_batch.add(other.first_batch);
    batch.add(other.batch);
  }
};

/// What a relay counts beside a server.
struct RelayStats {
  std::uint64_t hits = 0;           ///< Requests that were answered with what was held, and that it was current.
  std::uint64_t stale_hits = 0;     ///< Requests that were answered with what was held, with the upstream unreachable.
  std::uint64_t fetches = 0;        ///< Tables and tensors that were received completely.
  std::uint64_t failures = 0;       ///< Fetches that failed.
  std::uint64_t catalogs = 0;       ///< Reads of the upstream's catalog.
  std::uint64_t evictions = 0;      ///< Names that were withdrawn to make room.
  std::uint64_t bytes_fetched = 0;  ///< Sum of the buffers of what was fetched.
  std::uint64_t bytes_used = 0;     ///< Of `max_memory`.
  std::uint64_t max_memory = 0;     ///< RelayOptions::max_memory, in bytes; never 0.
  std::string upstream;             ///< The URI that it is connected to; empty: not connected.
};

/// A snapshot of statistics: the cost of each source, the leases of each consumer, and counters since the start.
struct ServerStats {
  std::string version;                  ///< Of Crossdock, as "0.1.0".
  std::uint32_t pid = 0;                ///< The server's process.
  std::chrono::milliseconds uptime{0};  ///< Since the server was made.
  std::vector<std::string> uris;        ///< As Server::uris().

  std::vector<SourceStats> sources;      ///< By name.
  std::vector<ConsumerStats> consumers;  ///< One for each connection, without order.
  /// Sources that an answer to another process has no room for. Those with the most requests have precedence.
  std::uint64_t sources_left_out = 0;
  /// Consumers that such an answer has no room for. Those that hold leases or read a stream have precedence.
  std::uint64_t consumers_left_out = 0;

  std::uint64_t connections = 0;           ///< Those that are there.
  std::uint64_t accepted_connections = 0;  ///< Since the start.
  /// Clients that were rejected before they were connected, since the start, by reason: "version" (none in common),
  /// "not_allowed" (the user, the token or the certificate), "malformed" (the handshake breaks the rules), "late"
  /// (there was no handshake in time), "full" (max_connections), "resources" (no memory or descriptors are left, or too
  /// many handshakes are under way), "protection" (TLS or checksums that one end demands and the other doesn't have).
  std::map<std::string, std::uint64_t> rejected_connections;
  std::uint64_t protocol_errors = 0;      ///< Connections ended because of a protocol violation.
  StreamTotals totals;                    ///< Of all streams since the start.
  std::uint64_t bytes_copied = 0;         ///< Of all sources since the start; see SourceStats::bytes_copied.
  std::uint64_t bitmap_bytes_copied = 0;  ///< For bitmaps of slices that don't start at a byte boundary.
  std::uint64_t leases = 0;               ///< Buffers that all consumers hold.
  std::uint64_t leased_bytes = 0;         ///< Of these buffers.
  std::optional<std::chrono::milliseconds> oldest_lease{};  ///< Age of the oldest lease, if there is one.
  std::optional<RelayStats> relay{};                        ///< Of a relay alone.
};

}  // namespace crossdock::session
