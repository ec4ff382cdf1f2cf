// One thread's memcpy of the same batches, column by column, into memory that was touched before: what any way that
// copies pays at least. Prints a line of JSON.
#include <cstdio>
#include <cstring>

#include "arguments.h"
#include "samples.h"
#include "tables.h"

namespace crossdock::bench {
namespace {

void copy(const Arguments& arguments) {
  const auto batch_bytes = static_cast<std::uint64_t>(arguments.number("batch-bytes", 64 << 10));
  const int sets = static_cast<int>(arguments.number("sets", 64));
  const std::int64_t count = arguments.number("batches", 100'000);
  const std::int64_t limit_ns = arguments.number("seconds", 3600) * 1'000'000'000;

  const auto schema = float64_schema(kColumns);
  const auto from = make_heap_batches(schema, batch_bytes, sets);
  const auto to = make_heap_batches(schema, batch_bytes, sets);
  Samples samples(static_cast<std::size_t>(count));
  const std::int64_t start = now_ns();
  std::int64_t last = start;
  for (std::int64_t i = 0; i < count && last - start < limit_ns; ++i) {
    const array::RecordBatch& source = from[static_cast<std::size_t>(i) % from.size()];
    const array::RecordBatch& target = to[static_cast<std::size_t>(i) % to.size()];
    for (std::size_t b = 1; b < source.buffers.size(); b += 2) {
      // Our own heap, made writable above; batches give it away as read-only.
      std::memcpy(const_cast<void*>(target.buffers[b].data), source.buffers[b].data,
                  static_cast<std::size_t>(source.buffers[b].size));
    }
    const std::int64_t now = now_ns();
    samples.add(now - last);
    last = now;
  }
  std::printf("{%s}\n", samples.json("period").c_str());
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv, {"batch-bytes", "sets", "batches", "seconds"}, crossdock::bench::copy);
}
