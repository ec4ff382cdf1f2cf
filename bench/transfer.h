#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "samples.h"

/// What the programs share that move bodies from one process to another.
namespace crossdock::bench {

inline constexpr std::size_t kParts = 8;       // of a body, as a batch of 8 columns has
inline constexpr std::size_t kMetadata = 600;  // bytes, about what a batch of 8 columns takes
inline constexpr std::size_t kWindow = 128;    // messages, as a session has them on their way

struct FreeAligned {
  void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
};
using Memory = std::unique_ptr<std::byte, FreeAligned>;

/// Memory that is there: every page was touched.
inline Memory make_memory(std::size_t bytes, int value) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(64, align_up(bytes, 64))));
  if (!memory) throw ResourceError("no memory for the bodies of the benchmark");
  std::memset(memory.get(), value, bytes);
  return memory;
}

struct Plan {
  explicit Plan(const Arguments& arguments)
      : body_bytes(static_cast<std::size_t>(arguments.number("body-bytes", 1 << 20))),
        sets(static_cast<std::size_t>(arguments.number("sets", 4))),
        warm_up(arguments.number("warm-up", 10)),
        batches(arguments.number("batches", 1000)) {}
  std::size_t body_bytes;
  std::size_t sets;
  std::int64_t warm_up;
  std::int64_t batches;
};

inline std::vector<ByteSpan> parts_of(const Memory& memory, std::size_t bytes) {
  std::vector<ByteSpan> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t begin = bytes * i / kParts;
    parts.push_back({memory.get() + begin, bytes * (i + 1) / kParts - begin});
  }
  return parts;
}

inline void check_body(ByteSpan body, std::int64_t i, const Plan& plan) {
  const auto expected = static_cast<std::byte>(static_cast<std::size_t>(i) % plan.sets + 1);
  if (body.size() != plan.body_bytes || body.front() != expected || body.back() != expected) {
    throw InvalidDataError("body " + std::to_string(i) + " came out wrong");
  }
}

/// Processor time of this process so far, ns.
inline std::int64_t cpu_ns() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) { return time.tv_sec * 1'000'000'000 + time.tv_usec * 1000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

/// Calls `take` for each body, and prints what they cost.
template <typename F>
void measure(const Plan& plan, F take) {
  Samples period(static_cast<std::size_t>(plan.batches));
  for (std::int64_t i = 0; i < plan.warm_up; ++i) take(i);
  const std::int64_t start_cpu = cpu_ns();
  const std::int64_t start = now_ns();
  std::int64_t last = start;
  for (std::int64_t i = 0; i < plan.batches; ++i) {
    take(plan.warm_up + i);
    const std::int64_t now = now_ns();
    period.add(now - last);
    last = now;
  }
  const auto batches = static_cast<double>(plan.batches);
  std::printf("{\"per_batch\":%.1f,\"cpu\":%.1f,%s}\n", static_cast<double>(last - start) / batches,
              static_cast<double>(cpu_ns() - start_cpu) / batches, period.json("period").c_str());
}

}  // namespace crossdock::bench
