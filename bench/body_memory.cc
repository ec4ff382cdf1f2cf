#include "body_memory.h"

#include <sys/resource.h>

#include <cstring>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::bench {

namespace {

constexpr std::size_t kGap = 64;  // bytes between the parts of a body

}  // namespace

Memory make_memory(std::size_t bytes, int value) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(64, align_up(bytes, 64))));
  if (!memory) throw ResourceError("no memory for the bodies of the benchmark");
  std::memset(memory.get(), value, bytes);
  return memory;
}

Plan::Plan(const Arguments& arguments)
    : body_bytes(static_cast<std::size_t>(arguments.number("body-bytes", 1 << 20))),
      parts(static_cast<std::size_t>(arguments.number("parts", 8))),
      sets(static_cast<std::size_t>(arguments.number("sets", 4))),
      warm_up(arguments.number("warm-up", 10)),
      batches(arguments.number("batches", 1000)) {}

std::vector<Memory> make_bodies(const Plan& plan) {
  std::vector<Memory> memory;
  for (std::size_t i = 0; i < plan.sets; ++i) {
    memory.push_back(make_memory(plan.body_bytes + plan.parts * kGap, static_cast<int>(i) + 1));
  }
  return memory;
}

std::vector<ByteSpan> parts_of(const Memory& body, const Plan& plan) {
  std::vector<ByteSpan> parts;
  for (std::size_t i = 0; i < plan.parts; ++i) {
    const std::size_t begin = plan.body_bytes * i / plan.parts;
    const std::size_t size = plan.body_bytes * (i + 1) / plan.parts - begin;
    parts.push_back({body.get() + begin + i * kGap, size});
  }
  return parts;
}

void check_body(ByteSpan body, std::int64_t i, const Plan& plan) {
  const auto expected = static_cast<std::byte>(static_cast<std::size_t>(i) % plan.sets + 1);
  if (body.size() != plan.body_bytes || body.front() != expected || body.back() != expected) {
    throw InvalidDataError("body " + std::to_string(i) + " came out wrong");
  }
}

std::int64_t cpu_ns() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) { return time.tv_sec * 1'000'000'000 + time.tv_usec * 1000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

}  // namespace crossdock::bench
