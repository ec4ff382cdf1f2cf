#include "server_stats.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>
#include <string>

#include "text.h"
#include "transport/transport.h"
#include "types.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using Seconds = std::chrono::duration<double>;

nb::object seconds_or_none(const std::optional<std::chrono::milliseconds>& age) {
  return age ? nb::object(nb::float_(Seconds(*age).count())) : nb::none();
}

nb::dict to_dict(const session::DurationHistogram& histogram) {
  nb::list limits;
  nb::list counts;
  for (std::size_t i = 0; i < histogram.kBuckets; ++i) {
    if (i + 1 < histogram.kBuckets) limits.append(Seconds(histogram.limit(i)).count());
    counts.append(histogram.counts[i]);
  }
  nb::dict result;
  result["limits"] = limits;
  result["counts"] = counts;
  result["sum"] = Seconds(histogram.sum).count();
  return result;
}

void add_relay(const session::RelayStats& stats, nb::dict* result) {
  nb::dict& to = *result;
  to["hits"] = stats.hits;
  to["stale_hits"] = stats.stale_hits;
  to["fetches"] = stats.fetches;
  to["failures"] = stats.failures;
  to["catalogs"] = stats.catalogs;
  to["evictions"] = stats.evictions;
  to["bytes_fetched"] = stats.bytes_fetched;
  to["bytes_used"] = stats.bytes_used;
  to["max_memory"] = stats.max_memory;
  to["upstream"] = stats.upstream.empty() ? nb::none() : nb::object(displayed(stats.upstream));
}

}  // namespace

nb::dict dict_of(const session::ServerStats& stats) {
  nb::list sources;
  for (const session::SourceStats& source : stats.sources) {
    nb::dict entry;
    entry["name"] = published_name(source.name);
    entry["kind"] = displayed(source.kind);
    entry["rows"] = count_or_none(source.rows);
    entry["bytes"] = count_or_none(source.bytes);
    entry["bytes_copied"] = source.bytes_copied;
    entry["streams"] = source.streams;
    sources.append(entry);
  }
  nb::list consumers;
  for (const session::ConsumerStats& consumer : stats.consumers) {
    nb::dict entry;
    entry["id"] = consumer.id;
    entry["pid"] = consumer.pid;
    entry["peer"] = displayed(consumer.peer);
    entry["name"] = consumer.name.empty() ? nb::object(nb::str("")) : published_name(consumer.name);
    entry["previous"] = consumer.previous.empty() ? nb::object(nb::str("")) : published_name(consumer.previous);
    entry["batches"] = consumer.batches;
    entry["rows"] = consumer.rows;
    entry["bytes"] = consumer.bytes;
    entry["window"] = consumer.window;
    entry["in_flight"] = consumer.in_flight;
    entry["leases"] = consumer.leases;
    entry["leased_bytes"] = consumer.leased_bytes;
    entry["oldest_lease"] = seconds_or_none(consumer.oldest_lease);
    entry["bytes_by_value"] = consumer.bytes_by_value;
    entry["carrier"] = displayed(consumer.carrier);
    entry["way"] =
        consumer.why.empty() ? nb::none() : nb::object(nb::cast(std::string(transport::way_name(consumer.way))));
    entry["why"] = consumer.why.empty() ? nb::none() : nb::object(displayed(consumer.why));
    consumers.append(entry);
  }
  nb::list uris;
  for (const std::string& uri : stats.uris) uris.append(displayed(uri));
  nb::dict rejected;
  for (const auto& [reason, count] : stats.rejected_connections) rejected[displayed(reason)] = count;
  nb::dict result;
  result["version"] = displayed(stats.version);
  result["pid"] = stats.pid;
  result["uptime"] = Seconds(stats.uptime).count();
  result["uris"] = uris;
  result["sources"] = sources;
  result["sources_left_out"] = stats.sources_left_out;
  result["consumers"] = consumers;
  result["consumers_left_out"] = stats.consumers_left_out;
  result["connections"] = stats.connections;
  result["accepted_connections"] = stats.accepted_connections;
  result["rejected_connections"] = rejected;
  result["protocol_errors"] = stats.protocol_errors;
  result["streams"] = stats.totals.streams;
  result["batches"] = stats.totals.batches;
  result["rows"] = stats.totals.rows;
  result["bytes"] = stats.totals.bytes;
  result["bytes_by_value"] = stats.totals.bytes_by_value;
  result["first_batch"] = to_dict(stats.totals.first_batch);
  result["batch"] = to_dict(stats.totals.batch);
  result["bytes_copied"] = stats.bytes_copied;
  result["bitmap_bytes_copied"] = stats.bitmap_bytes_copied;
  result["leases"] = stats.leases;
  result["leased_bytes"] = stats.leased_bytes;
  result["oldest_lease"] = seconds_or_none(stats.oldest_lease);
  if (stats.relay) add_relay(*stats.relay, &result);
  return result;
}

}  // namespace crossdock::python
