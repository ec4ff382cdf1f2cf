#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "arguments.h"
#include "core/bytes.h"
#include "samples.h"

/// What the programs that move bodies have in common: what is sent, in which parts, and how it is measured.
namespace crossdock::bench {

inline constexpr std::size_t kMetadata = 600;  ///< Bytes before a body, about what a batch of 8 columns takes.

struct FreeAligned {
  void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
};
using Memory = std::unique_ptr<std::byte, FreeAligned>;

/// Memory that is there: every page was touched. Throws ResourceError.
Memory make_memory(std::size_t bytes, int value);

/// How much is sent: `--body-bytes N --parts N --sets N --batches N --warm-up N`.
struct Plan {
  explicit Plan(const Arguments& arguments);
  std::size_t body_bytes;
  std::size_t parts;  ///< Of a body, apart from each other: 8, as a batch of 8 columns on the heap has.
  std::size_t sets;   ///< Bodies, each from memory of its own, in turns.
  std::int64_t warm_up;
  std::int64_t batches;
  std::int64_t total() const { return warm_up + batches; }
};

/// The memory of all sets; every byte of set i is i + 1.
std::vector<Memory> make_bodies(const Plan& plan);
std::vector<ByteSpan> parts_of(const Memory& body, const Plan& plan);
/// Throws InvalidDataError unless it is what body number `i` has to be, as its size, first and last byte say.
void check_body(ByteSpan body, std::int64_t i, const Plan& plan);

/// Processor time of this process so far, ns.
std::int64_t cpu_ns();

/// Calls `take` for each body, and prints what one cost, in nanoseconds from the end of one to the end of the next.
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
