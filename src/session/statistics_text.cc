#include "session/statistics_text.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/base64.h"
#include "core/bytes.h"
#include "core/json.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "transport/transport.h"

namespace crossdock::session {
namespace {

/// The name of something published: a string if it is text, else a list of one string, its bytes in base64.
template <class Text>
struct Name {
  Text& text;
};
template <class Text>
Name(Text&) -> Name<Text>;

// The members of each object, for the writer and for the reader.

template <class Stats, class Visitor>
void visit_histogram(Stats& stats, Visitor& visit) {
  visit("counts", stats.counts);
  visit("sum_ns", stats.sum);
}

template <class Stats, class Visitor>
void visit_source(Stats& stats, Visitor& visit) {
  visit("name", Name{stats.name});
  visit("kind", stats.kind);
  visit("rows", stats.rows);
  visit("bytes", stats.bytes);
  visit("bytes_copied", stats.bytes_copied);
  visit("streams", stats.streams);
}

template <class Stats, class Visitor>
void visit_consumer(Stats& stats, Visitor& visit) {
  visit("id", stats.id);
  visit("pid", stats.pid);
  visit("peer", stats.peer);
  visit("name", Name{stats.name});
  visit("previous", Name{stats.previous});
  visit("batches", stats.batches);
  visit("rows", stats.rows);
  visit("bytes", stats.bytes);
  visit("window", stats.window);
  visit("in_flight", stats.in_flight);
  visit("leases", stats.leases);
  visit("leased_bytes", stats.leased_bytes);
  visit("oldest_lease_ms", stats.oldest_lease);
  visit("bytes_by_value", stats.bytes_by_value);
  visit("carrier", stats.carrier);
  visit("way", stats.way);
  visit("why", stats.why);
}

template <class Stats, class Visitor>
void visit_relay(Stats& stats, Visitor& visit) {
  visit("hits", stats.hits);
  visit("stale_hits", stats.stale_hits);
  visit("fetches", stats.fetches);
  visit("failures", stats.failures);
  visit("catalogs", stats.catalogs);
  visit("evictions", stats.evictions);
  visit("bytes_fetched", stats.bytes_fetched);
  visit("bytes_used", stats.bytes_used);
  visit("max_memory", stats.max_memory);
  visit("upstream", stats.upstream);
}

template <class Stats, class Visitor>
void visit_server(Stats& stats, Visitor& visit) {
  visit("version", stats.version);
  visit("pid", stats.pid);
  visit("uptime_ms", stats.uptime);
  visit("uris", stats.uris);
  visit("connections", stats.connections);
  visit("accepted_connections", stats.accepted_connections);
  visit("rejected_connections", stats.rejected_connections);
  visit("protocol_errors", stats.protocol_errors);
  visit("streams", stats.totals.streams);
  visit("batches", stats.totals.batches);
  visit("rows", stats.totals.rows);
  visit("bytes", stats.totals.bytes);
  visit("bytes_by_value", stats.totals.bytes_by_value);
  visit("first_batch", stats.totals.first_batch);
  visit("batch", stats.totals.batch);
  visit("bytes_copied", stats.bytes_copied);
  visit("bitmap_bytes_copied", stats.bitmap_bytes_copied);
  visit("leases", stats.leases);
  visit("leased_bytes", stats.leased_bytes);
  visit("oldest_lease_ms", stats.oldest_lease);
  visit("relay", stats.relay);
  visit("consumers", stats.consumers);
  visit("sources", stats.sources);
  visit("consumers_left_out", stats.consumers_left_out);
  visit("sources_left_out", stats.sources_left_out);
}

template <class Visitor>
void visit_members(auto& stats, Visitor& visit) {
  using Stats = std::remove_cvref_t<decltype(stats)>;
  if constexpr (std::is_same_v<Stats, DurationHistogram>) visit_histogram(stats, visit);
  if constexpr (std::is_same_v<Stats, SourceStats>) visit_source(stats, visit);
  if constexpr (std::is_same_v<Stats, ConsumerStats>) visit_consumer(stats, visit);
  if constexpr (std::is_same_v<Stats, RelayStats>) visit_relay(stats, visit);
  if constexpr (std::is_same_v<Stats, ServerStats>) visit_server(stats, visit);
}

/// Writes the members of one object.
class Writer {
 public:
  explicit Writer(std::string* out) : out_(*out) { out_ += '{'; }
  void end() { out_ += '}'; }

  void operator()(const char* name, const auto& value) {
    begin(name);
    write(value);
  }
  void operator()(const char* name, const std::optional<RelayStats>& value) {
    if (value) (*this)(name, *value);
  }

 private:
  void begin(const char* name) {
    if (!std::exchange(first_, false)) out_ += ',';
    append_json(name, &out_);
    out_ += ':';
  }
  void write(std::int64_t value) { out_ += std::to_string(value); }
  void write(std::uint64_t value) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    out_ += std::to_string(std::min(value, kMost));
  }
  void write(std::uint32_t value) { write(std::uint64_t{value}); }
  template <class Rep, class Period>
  void write(std::chrono::duration<Rep, Period> value) {
    write(std::int64_t{value.count()});
  }
  void write(const std::optional<std::chrono::milliseconds>& value) {
    write(value ? value->count() : std::int64_t{-1});
  }
  void write(const std::string& value) { append_json(is_utf8(value) ? value : printable(value), &out_); }
  void write(const Name<const std::string>& name) {
    if (is_utf8(name.text)) return append_json(name.text, &out_);
    out_ += '[';
    append_json(to_base64(as_bytes(name.text)), &out_);
    out_ += ']';
  }
  void write(transport::Way way) { append_json(transport::way_name(way), &out_); }
  void write(const std::array<std::uint64_t, DurationHistogram::kBuckets>& counts) {
    write_list_of(counts, [&](std::uint64_t value) { write(value); });
  }
  void write(const std::map<std::string, std::uint64_t>& counts) {
    out_ += '{';
    for (bool first = true; const auto& [name, value] : counts) {
      if (!std::exchange(first, false)) out_ += ',';
      append_json(name, &out_);
      out_ += ':';
      write(value);
    }
    out_ += '}';
  }
  template <class Stats>
  void write(const std::vector<Stats>& all) {
    write_list_of(all, [&](const Stats& value) { write(value); });
  }
  void write(const auto& stats) {
    Writer inner(&out_);
    visit_members(stats, inner);
    inner.end();
  }
  void write_list_of(const auto& all, auto write_one) {
    out_ += '[';
    for (bool first = true; const auto& value : all) {
      if (!std::exchange(first, false)) out_ += ',';
      write_one(value);
    }
    out_ += ']';
  }

  std::string& out_;
  bool first_ = true;
};

/// Reads the value of one member of an object.
class Reading {
 public:
  Reading(std::string_view name, JsonReader* json) : name_(name), json_(*json) {}
  void operator()(std::string_view name, auto&& value) {
    if (found_ || name != name_) return;
    found_ = true;
    good_ = read(value);
  }
  bool found() const noexcept { return found_; }
  bool good() const noexcept { return good_; }

  /// Reads an object.
  static bool read_members(JsonReader* json, auto& stats) {
    return json->object([&](const std::string& name) {
      Reading member(name, json);
      visit_members(stats, member);
      return member.found() ? member.good() : json->skip();
    });
  }

 private:
  bool read(std::int64_t& value) { return json_.integer(&value); }
  bool read(std::uint64_t& value) {
    std::int64_t number = 0;
    if (!json_.integer(&number) || number < 0) return false;
    value = static_cast<std::uint64_t>(number);
    return true;
  }
  bool read(std::uint32_t& value) {
    std::uint64_t number = 0;
    if (!read(number) || number > std::numeric_limits<std::uint32_t>::max()) return false;
    value = static_cast<std::uint32_t>(number);
    return true;
  }
  template <class Rep, class Period>
  bool read(std::chrono::duration<Rep, Period>& value) {
    std::int64_t count = 0;
    if (!read(count) || count < 0) return false;
    value = std::chrono::duration<Rep, Period>(count);
    return true;
  }
  bool read(std::optional<std::chrono::milliseconds>& value) {
    std::int64_t count = 0;
    if (!read(count)) return false;
    value.reset();
    if (count >= 0) value.emplace(count);
    return true;
  }
  bool read(std::string& value) {
    value.clear();
    return json_.string(&value) && is_utf8(value);
  }
  bool read(Name<std::string>& name) {
    if (!json_.take('[')) return read(name.text);
    std::string encoded;
    if (!json_.string(&encoded) || !json_.take(']')) return false;
    const Base64 decoded = from_base64(encoded);
    name.text = as_text(decoded.bytes);
    return decoded.wrong.empty();
  }
  bool read(transport::Way& way) {
    std::string name;
    if (!read(name)) return false;
    const auto known = transport::way_named(name);
    if (known) way = *known;
    return known.has_value();
  }
  bool read(std::vector<std::string>& all) {
    all.clear();
    return json_.list([&] { return all.size() < kMostListed && read(all.emplace_back()); });
  }
  bool read(std::array<std::uint64_t, DurationHistogram::kBuckets>& counts) {
    std::size_t n = 0;
    return json_.list([&] { return n < counts.size() && read(counts[n++]); }) && n == counts.size();
  }
  bool read(std::map<std::string, std::uint64_t>& counts) {
    counts.clear();
    return json_.object(
        [&](const std::string& name) { return counts.size() < kMostListed && is_utf8(name) && read(counts[name]); });
  }
  bool read(DurationHistogram& histogram) { return read_members(&json_, histogram); }
  bool read(std::optional<RelayStats>& relay) { return read_members(&json_, relay.emplace()); }
  template <class Stats>
  bool read(std::vector<Stats>& all) {
    all.clear();
    return json_.list([&] { return all.size() < kMostListed && read_members(&json_, all.emplace_back()); });
  }

  const std::string_view name_;
  JsonReader& json_;
  bool found_ = false;
  bool good_ = false;
};

/// Leaves at most `most` entries: those of the highest rank, if there are more.
template <class Stats, class Rank>
void cut(std::vector<Stats>* all, std::uint64_t* left_out, std::size_t most, Rank rank) {
  if (all->size() <= most) return;
  std::ranges::stable_sort(*all, std::greater<>(), rank);
  *left_out += all->size() - most;
  all->resize(most);
}

}  // namespace

std::string statistics_text(ServerStats stats, std::size_t room) {
  std::string text;
  for (std::size_t most = kMostListed;; most /= 2) {
    cut(&stats.consumers, &stats.consumers_left_out, most, [](const ConsumerStats& one) {
      return std::tuple(one.leases > 0 || !one.name.empty(), one.leased_bytes, one.bytes);
    });
    cut(&stats.sources, &stats.sources_left_out, most, &SourceStats::streams);
    text.clear();
    Writer writer(&text);
    visit_server(std::as_const(stats), writer);
    writer.end();
    if (text.size() <= room || most == 0) return text;
  }
}

ServerStats statistics_in(std::string_view text) {
  ServerStats stats;
  JsonReader json(text);
  if (!Reading::read_members(&json, stats) || !json.at_end()) {
    throw InvalidDataError("the statistics that the server sent are invalid: " + shown(text, 60));
  }
  return stats;
}

}  // namespace crossdock::session
