#include "allocation_count.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::int64_t count = 0;

void* take(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++count;
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take(std::malloc(size > 0 ? size : 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return take(std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace crossdock::array::test {

std::int64_t allocations() noexcept { return count; }

}  // namespace crossdock::array::test
