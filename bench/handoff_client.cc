// Reads the stream "batches" of a server. Each batch is exported to an ArrowArray, as an importer gets it; one byte of
// every buffer is read, or all of it is summed; then it is released, which gives its memory back to the server. Prints
// a line of JSON: times in nanoseconds per batch, from the end of one batch to the end of the next.
//   --read first | sum       what is read of each buffer
//   --export 0               takes and releases each batch as a RecordBatch, and reads nothing
//   --warm-up N              batches before the measurement; should be at least the number of address sets
//   --batches N --seconds S  ends the measurement, whichever comes first; the stream's end does, too
//   --latency 1              for latency_server: also measures from the time that each batch carries
//   --memory-of PID --memory-samples N   how much this process and the server hold, N times over the measurement
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "arguments.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "samples.h"

namespace crossdock::bench {
namespace {

enum class Read { kFirst, kSum };

// Adds up as wide as the machine loads, in lanes that don't wait for each other.
double sum_of(const double* values, std::int64_t n) {
  using Lanes = double __attribute__((vector_size(64)));
  constexpr std::int64_t kLanes = 8;
  Lanes sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) {
      Lanes loaded;
      std::memcpy(&loaded, values + i + part * kLanes, sizeof loaded);
      sums[part] += loaded;
    }
  }
  double sum = 0;
  for (const Lanes& lanes : sums) {
    for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  }
  for (; i < n; ++i) sum += values[i];
  return sum;
}

class Consumer {
 public:
  Consumer(std::unique_ptr<session::Reader> reader, Read read, bool exports)
      : reader_(std::move(reader)), read_(read), exports_(exports) {}

  /// The next batch, from its arrival to its release. False at the end of the stream.
  bool take() {
    std::optional<array::RecordBatch> batch = reader_->next();
    if (!batch) return false;
    if (!exports_) return true;
    ArrowDeviceArray imported;
    array::export_batch(*std::move(batch), &imported);
    ArrowArray& root = imported.array;
    for (std::int64_t i = 0; i < root.n_children; ++i) {
      const ArrowArray& column = *root.children[i];
      const auto* values = static_cast<const double*>(column.buffers[1]);
      first_bytes_ += *reinterpret_cast<const volatile unsigned char*>(values);
      if (read_ == Read::kSum) check_sum(values, column.length);
    }
    std::memcpy(&stamp_, root.children[0]->buffers[1], sizeof stamp_);
    first_address_ = root.children[0]->buffers[1];
    rows_ = root.length;
    arrived_ns_ = latency_ ? now_ns() : 0;
    root.release(&root);
    return true;
  }

  void measure_latency() { latency_ = true; }
  std::int64_t latency_ns() const { return arrived_ns_ - stamp_; }
  const void* first_address() const { return first_address_; }
  std::int64_t rows() const { return rows_; }

 private:
  // tables.cc: every value of a batch is the same whole number.
  static void check_sum(const double* values, std::int64_t n) {
    const double sum = sum_of(values, n);
    if (sum != values[0] * static_cast<double>(n)) throw InvalidDataError("a column arrived with a wrong sum");
  }

  std::unique_ptr<session::Reader> reader_;
  Read read_;
  bool exports_;
  bool latency_ = false;
  unsigned first_bytes_ = 0;
  std::int64_t stamp_ = 0;
  std::int64_t arrived_ns_ = 0;
  std::int64_t rows_ = 0;
  const void* first_address_ = nullptr;
};

/// Takes a look at both processes now and then.
class MemoryWatch {
 public:
  MemoryWatch(std::string server, std::int64_t samples, std::int64_t batches)
      : server_(std::move(server)), every_(samples > 0 ? std::max<std::int64_t>(1, batches / samples) : 0) {}

  void after(std::int64_t batches) {
    if (every_ == 0 || batches % every_ != 0) return;
    const ProcessMemory client = memory_of("self");
    const ProcessMemory server = memory_of(server_);
    if (!json_.empty()) json_ += ",";
    json_ += "[" + std::to_string(batches) + "," + std::to_string(client.rss_kib) + "," +
             std::to_string(client.descriptors) + "," + std::to_string(server.rss_kib) + "," +
             std::to_string(server.descriptors) + "]";
  }
  const std::string& json() const { return json_; }

 private:
  std::string server_;
  std::int64_t every_;
  std::string json_;
};

void consume(const Arguments& arguments) {
  const std::string how = arguments.text("read", "first");
  if (how != "first" && how != "sum") throw InvalidArgumentError("--read is first or sum, not " + how);
  const std::int64_t warm_up = arguments.number("warm-up", 64);
  const std::int64_t batches = arguments.number("batches", 100'000);
  const std::int64_t limit_ns = arguments.number("seconds", 3600) * 1'000'000'000;
  const bool latency = arguments.number("latency", 0) != 0;
  MemoryWatch watch(arguments.text("memory-of", "self"), arguments.number("memory-samples", 0), batches);

  session::Client client(arguments.text("uri"));
  session::GetOptions options;
  options.wait = arguments.wait("wait");
  Samples period(static_cast<std::size_t>(batches));
  Samples one_way(latency ? static_cast<std::size_t>(batches) : 0);
  Samples first_touch(static_cast<std::size_t>(warm_up));
  std::set<const void*> addresses;

  Consumer consumer(client.get("batches", options), how == "sum" ? Read::kSum : Read::kFirst,
                    arguments.number("export", 1) != 0);
  if (latency) consumer.measure_latency();
  // The first batch brings its region, which is mapped then; the others of the first round meet pages not touched yet.
  std::int64_t last = now_ns();
  std::int64_t first_batch_ns = 0;
  for (std::int64_t i = 0; i < warm_up; ++i) {
    if (!consumer.take()) throw TruncatedStreamError("the stream ended within the warm-up");
    const std::int64_t now = now_ns();
    const bool is_new = addresses.insert(consumer.first_address()).second;
    if (i == 0) {
      first_batch_ns = now - last;
    } else if (is_new) {
      first_touch.add(now - last);
    }
    last = now_ns();
  }

  const std::int64_t start = now_ns();
  last = start;
  std::int64_t done = 0;
  while (done < batches && consumer.take()) {
    const std::int64_t now = now_ns();
    period.add(now - last);
    if (latency) one_way.add(consumer.latency_ns());
    last = now;
    watch.after(++done);
    if (now - start > limit_ns) break;
  }
  const double total = static_cast<double>(last - start);
  std::printf("{\"batches\":%lld,\"rows\":%lld,\"address_sets\":%zu,\"first_batch\":%lld,\"per_batch\":%.1f,%s,%s",
              static_cast<long long>(done), static_cast<long long>(consumer.rows()), addresses.size(),
              static_cast<long long>(first_batch_ns), done > 0 ? total / static_cast<double>(done) : 0.0,
              period.json("period").c_str(), first_touch.json("first_touch").c_str());
  if (latency) std::printf(",%s", one_way.json("one_way").c_str());
  std::printf(",\"memory\":[%s]}\n", watch.json().c_str());
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(
      argc, argv,
      {"uri", "wait", "read", "export", "warm-up", "batches", "seconds", "latency", "memory-of", "memory-samples"},
      crossdock::bench::consume);
}
