#include "support/failing_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local const char marker = 0;  // its address tells a thread from others

std::atomic<bool> armed{false};
std::atomic<const char*> asking{nullptr};
std::atomic<bool> others{false};
std::atomic<std::int64_t> counted{0};
std::atomic<std::int64_t> first_failing{0};
std::atomic<std::int64_t> last_failing{0};

void fail_if_told() {
  if (!armed.load(std::memory_order_acquire)) return;
  if ((asking.load() == &marker) == others.load()) return;
  const std::int64_t number = counted.fetch_add(1);
  if (number >= first_failing.load() && number <= last_failing.load()) throw std::bad_alloc();
}

void* take(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  fail_if_told();
  return take(std::malloc(size > 0 ? size : 1));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  fail_if_told();
  const auto step = static_cast<std::size_t>(alignment);
  return take(std::aligned_alloc(step, (size + step - 1) / step * step));
}
// Those that don't throw go with the above: a sanitizer's own would not fit the deletes below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return operator new(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace crossdock::testing {

FailingAllocations::FailingAllocations(Whose whose, std::int64_t first, std::int64_t count) noexcept {
  asking = &marker;
  others = whose == Whose::kOthers;
  counted = 0;
  first_failing = first;
  last_failing = first + count - 1;
  armed.store(true, std::memory_order_release);
}

FailingAllocations::~FailingAllocations() { armed.store(false, std::memory_order_release); }

std::int64_t FailingAllocations::seen() noexcept { return counted.load(); }

}  // namespace crossdock::testing
