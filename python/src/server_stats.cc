#include "server_stats.h"

#include <nanobind/stl/string.h>

#include <string>

#include "text.h"
#include "transport/transport.h"
#include "types.h"

namespace nb = nanobind;

namespace crossdock::python {

nb::dict dict_of(const session::ServerStats& stats) {
  nb::list sources;
  for (const session::SourceStats& source : stats.sources) {
    nb::dict entry;
    entry["name"] = published_name(source.name);
    entry["kind"] = source.kind;
    entry["rows"] = count_or_none(source.rows);
    entry["bytes"] = count_or_none(source.bytes);
    entry["bytes_copied"] = source.bytes_copied;
    entry["consumers"] = source.consumers;
    sources.append(entry);
  }
  nb::list consumers;
  for (const session::ConsumerStats& consumer : stats.consumers) {
    nb::dict entry;
    entry["pid"] = consumer.pid;
    entry["peer"] = displayed(consumer.peer);
    entry["name"] = consumer.name.empty() ? nb::object(nb::str("")) : published_name(consumer.name);
    entry["batches"] = consumer.batches;
    entry["rows"] = consumer.rows;
    entry["bytes"] = consumer.bytes;
    entry["window"] = consumer.window;
    entry["in_flight"] = consumer.in_flight;
    entry["leases"] = consumer.leases;
    entry["leased_bytes"] = consumer.leased_bytes;
    entry["oldest_lease"] =
        consumer.oldest_lease_ms < 0 ? nb::none() : nb::object(nb::float_(consumer.oldest_lease_ms / 1000.0));
    entry["bytes_by_value"] = consumer.bytes_by_value;
    entry["carrier"] = consumer.carrier;
    entry["way"] =
        consumer.why.empty() ? nb::none() : nb::object(nb::cast(std::string(transport::way_name(consumer.way))));
    entry["why"] = consumer.why.empty() ? nb::none() : nb::object(nb::cast(consumer.why));
    consumers.append(entry);
  }
  nb::dict result;
  result["sources"] = sources;
  result["consumers"] = consumers;
  result["connections"] = stats.connections;
  result["protocol_errors"] = stats.protocol_errors;
  result["bitmap_bytes_copied"] = stats.bitmap_bytes_copied;
  return result;
}

}  // namespace crossdock::python
