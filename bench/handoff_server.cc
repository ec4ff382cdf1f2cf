// Serves one table of 8 float64 columns under the name "batches" until its standard input ends. First it prints a line
// of JSON: the URI, and what publishing took.
//   --uri URI        where to listen; shm: if it isn't given
//   --source arena   built in an arena: no copy (default)
//            table   from the heap, copied once when it is published
//            live    from the heap, a stream of its own for each consumer, copied batch by batch
//   --ragged 1       each of the sets has a row less than the one before, so that their metadata differs
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "arguments.h"
#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "samples.h"
#include "tables.h"

namespace crossdock::bench {
namespace {

// Fills the arena here, so that no batch refers to it once it is published: the table alone keeps it.
session::Source arena_source(session::Runtime& runtime, const std::shared_ptr<const array::Schema>& schema,
                             std::uint64_t batch_bytes, int sets, bool ragged, std::int64_t count) {
  const std::shared_ptr<device::Arena> arena = runtime.make_arena();
  auto batches = make_batches(
      schema, batch_bytes, sets, [&](std::uint64_t bytes) { return arena->allocate(bytes); }, arena);
  if (ragged) make_ragged(&batches);
  return session::Source::table(std::make_unique<RepeatedStream>(std::move(batches), count));
}

void serve(const Arguments& arguments) {
  const auto batch_bytes = static_cast<std::uint64_t>(arguments.number("batch-bytes", 64 << 10));
  const int sets = static_cast<int>(arguments.number("sets", 64));
  const std::int64_t count = arguments.number("batches", 100'000);
  const bool ragged = arguments.number("ragged", 0) != 0;
  const std::string kind = arguments.text("source", "arena");

  session::ServerOptions options;
  options.uris = {arguments.text("uri", "shm:")};
  options.wait = arguments.wait("wait");
  options.window = static_cast<std::uint32_t>(arguments.number("window", options.window));
  options.lease_limit = static_cast<std::uint64_t>(arguments.number("lease-limit", std::int64_t{1} << 30));
  options.runtime = std::make_shared<session::Runtime>();
  const auto schema = float64_schema(kColumns);

  session::Server server(options);
  std::int64_t publish_ns = 0;
  const auto publish = [&](session::Source source) {
    const std::int64_t start = now_ns();
    server.publish("batches", std::move(source));
    publish_ns = now_ns() - start;
  };
  if (kind == "arena") {
    publish(arena_source(*options.runtime, schema, batch_bytes, sets, ragged, count));
  } else if (kind == "table") {
    publish(
        session::Source::table(std::make_unique<RepeatedStream>(make_heap_batches(schema, batch_bytes, sets), count)));
  } else if (kind == "live") {
    publish(session::Source::factory([batches = make_heap_batches(schema, batch_bytes, sets), count] {
      return std::make_unique<RepeatedStream>(batches, count);
    }));
  } else {
    throw InvalidArgumentError("--source is arena, table or live, not " + kind);
  }
  std::printf("{\"uri\":\"%s\",\"publish_ns\":%lld}\n", server.uri().c_str(), static_cast<long long>(publish_ns));
  std::fflush(stdout);
  std::cin.ignore(1);  // returns when whoever started us closes its end
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(
      argc, argv, {"uri", "source", "batch-bytes", "sets", "ragged", "batches", "wait", "window", "lease-limit"},
      crossdock::bench::serve);
}
