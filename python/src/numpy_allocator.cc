#include "numpy_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <string>

#include "crossdock/core/error.h"

namespace nb = nanobind;

namespace crossdock::python::numpy_allocator {
namespace {

using device::Pool;

// NumPy's C structures and its numbers of functions, which are its stable ABI: numpy/ndarraytypes.h and
// numpy/__multiarray_api.h, since 1.22. They are repeated here so that the package is built without NumPy.
struct Allocator {
  void* context;
  void* (*malloc)(void* context, std::size_t size);
  void* (*calloc)(void* context, std::size_t count, std::size_t size);
  void* (*realloc)(void* context, void* memory, std::size_t size);
  void (*free)(void* context, void* memory, std::size_t size);
};
struct Handler {
  char name[127];
  std::uint8_t version;
  Allocator allocator;
};
constexpr std::size_t kDefaultHandler = 306;
constexpr const char* kHandlerCapsule = "mem_handler";

// NumPy calls the functions below on any thread, and without the GIL where it has none. All that they read is set
// before they are, and never freed.
Allocator original;
constexpr std::uint64_t kNever = UINT64_MAX;
std::atomic<std::uint64_t> least{kNever};  // bytes of an array in a pool
std::atomic<Pool*> current{nullptr};
// All that were installed: an array may be in any of them.
constexpr std::size_t kMostPools = 64;
std::array<std::atomic<Pool*>, kMostPools> pools;
std::atomic<std::size_t> n_pools{0};

Pool* pool_of(const void* memory) noexcept {
  for (std::size_t i = 0, n = n_pools.load(std::memory_order_acquire); i < n; ++i) {
    Pool* const pool = pools[i].load(std::memory_order_relaxed);
    if (pool->size_of(memory)) return pool;
  }
  return nullptr;
}

/// Returns memory of the current pool, or null.
void* allocate(std::uint64_t size, Pool::Content content) noexcept {
  if (size < least.load(std::memory_order_relaxed)) return nullptr;
  try {
    return current.load(std::memory_order_acquire)->allocate_unowned(size, content);
  } catch (const std::exception&) {  // the pool is full, or the system has no mapping or descriptor left
    return nullptr;
  }
}

void* malloc_in_pool(void* context, std::size_t size) {
  void* const memory = allocate(size, Pool::Content::kAny);
  return memory != nullptr ? memory : original.malloc(context, size);
}

void* calloc_in_pool(void* context, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  void* const memory = __builtin_mul_overflow(count, size, &bytes) ? nullptr : allocate(bytes, Pool::Content::kZeros);
  return memory != nullptr ? memory : original.calloc(context, count, size);
}

void free_in_pool(void* context, void* memory, std::size_t size) {
  for (std::size_t i = 0, n = n_pools.load(std::memory_order_acquire); i < n; ++i) {
    if (pools[i].load(std::memory_order_relaxed)->free(memory)) return;
  }
  original.free(context, memory, size);
}

void* realloc_in_pool(void* context, void* memory, std::size_t size) {
  Pool* const pool = memory == nullptr ? nullptr : pool_of(memory);
  if (pool == nullptr) return original.realloc(context, memory, size);
  const std::uint64_t has = pool->size_of(memory).value_or(0);
  if (size <= has && size >= has / 2) return memory;
  void* const moved = malloc_in_pool(context, size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min<std::uint64_t>(size, has));
  pool->free(memory);
  return moved;
}

Handler& default_handler(nb::handle api) {
  auto* const table = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), nullptr));
  if (table == nullptr) throw nb::python_error();
  PyObject* const capsule = *static_cast<PyObject**>(table[kDefaultHandler]);
  auto* const handler = static_cast<Handler*>(PyCapsule_GetPointer(capsule, kHandlerCapsule));
  if (handler == nullptr) throw nb::python_error();
  if (handler->version != 1) {
    throw UnsupportedError("NumPy's allocator has version " + std::to_string(handler->version) +
                           ", and this Crossdock knows version 1; use a Pool's empty() instead");
  }
  return *handler;
}

}  // namespace

void install(nb::handle api, const std::shared_ptr<Pool>& pool, std::uint64_t threshold) {
  Allocator& now = default_handler(api).allocator;
  const std::size_t n = n_pools.load(std::memory_order_relaxed);
  const auto known = std::find_if(pools.begin(), pools.begin() + static_cast<std::ptrdiff_t>(n),
                                  [&](const auto& entry) { return entry.load() == pool.get(); });
  if (known == pools.begin() + static_cast<std::ptrdiff_t>(n)) {
    if (n == kMostPools) {
      throw ResourceError("NumPy's arrays have been in 64 pools of this process; install one of these again");
    }
    // Never freed: arrays are in it until the process ends.
    static_cast<void>(new std::shared_ptr<Pool>(pool));
    pools[n].store(pool.get(), std::memory_order_relaxed);
    n_pools.store(n + 1, std::memory_order_release);
  }
  current.store(pool.get(), std::memory_order_release);
  least.store(threshold, std::memory_order_release);
  if (now.malloc == malloc_in_pool) return;
  original = now;
  // Another thread may be in NumPy: memory of a pool must be freed rightly before there is any.
  std::atomic_ref(now.free).store(free_in_pool);
  std::atomic_ref(now.realloc).store(realloc_in_pool);
  std::atomic_ref(now.calloc).store(calloc_in_pool);
  std::atomic_ref(now.malloc).store(malloc_in_pool);
}

void uninstall() noexcept { least.store(kNever, std::memory_order_relaxed); }

}  // namespace crossdock::python::numpy_allocator
