// A double of dpctl's C library. It passes each call on to the real one, can make a call fail, and counts memory that
// is freed while a copy uses it. Tests of faults put it in the real library's place (CROSSDOCK_SYCL_LIBRARY).

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "device/sycl/api.h"

namespace crossdock::device::sycl {

namespace {

enum Function : int {
#define CROSSDOCK_SYCL_NUMBER(member, name, result, parameters) number_of_##member,
  CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_NUMBER)
#undef CROSSDOCK_SYCL_NUMBER
      kFunctions
};

const char* const kNames[] = {
#define CROSSDOCK_SYCL_NAME(member, name, result, parameters) name,
    CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_NAME)
#undef CROSSDOCK_SYCL_NAME
};

std::atomic<int> calls[kFunctions];
std::atomic<int> first_failing[kFunctions];  ///< The number of a call; 0 for none.
std::atomic<int> last_failing[kFunctions];

/// Returns a function of the real library, which the process must name.
void* find_real(const char* name) {
  static void* const library = [] {
    const char* const path = std::getenv("CROSSDOCK_SYCL_FAILING_OF");
    void* const found = path != nullptr ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (found == nullptr) {
      std::fputs("CROSSDOCK_SYCL_FAILING_OF in the environment must be the path of dpctl's library\n", stderr);
      std::abort();
    }
    return found;
  }();
  return ::dlsym(library, name);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(find_real(name));
}

struct Copy {
  const void* to;
  const void* from;
  EventRef event;
};
std::mutex copies_mutex;
std::vector<Copy> copies;  ///< Those that may be under way.
std::atomic<int> early_frees{0};

void forget_finished_copies() {
  static const auto status = real<int(EventRef)>("DPCTLEvent_GetCommandExecutionStatus");
  static const auto drop = real<void(EventRef)>("DPCTLEvent_Delete");
  std::erase_if(copies, [](const Copy& copy) {
    if (status(copy.event) != kStatusComplete) return false;
    drop(copy.event);
    return true;
  });
}

template <typename... Rest>
EventRef note_copy(EventRef event, QueueRef, const void* to, const void* from, Rest...) {
  static const auto copy_of = real<EventRef(EventRef)>("DPCTLEvent_Copy");
  const std::lock_guard lock(copies_mutex);
  forget_finished_copies();
  if (event != nullptr) copies.push_back({to, from, copy_of(event)});
  return event;
}

/// Returns the number of copies under way that start in this memory, at either end.
int copies_under_way(const void* memory, std::size_t size) {
  const std::lock_guard lock(copies_mutex);
  forget_finished_copies();
  const auto contains = [first = reinterpret_cast<std::uintptr_t>(memory), size](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - first < size;
  };
  const auto uses = [&contains](const Copy& copy) { return contains(copy.to) || contains(copy.from); };
  return static_cast<int>(std::count_if(copies.begin(), copies.end(), uses));
}

std::mutex sizes_mutex;
std::map<const void*, std::size_t> sizes;  ///< Of memory that was allocated here.

void* note_size(void* memory, std::size_t, std::size_t size, QueueRef) {
  const std::lock_guard lock(sizes_mutex);
  sizes[memory] = size;
  return memory;
}

void check_free(const void* memory, ContextRef) {
  const std::lock_guard lock(sizes_mutex);
  early_frees += copies_under_way(memory, sizes[memory]);
}

template <Function kFunction, typename Signature>
struct Forward;
template <Function kFunction, typename Result, typename... Parameters>
struct Forward<kFunction, Result(Parameters...)> {
  /// Fails as dpctl does: returns null, false, or "unknown", and does nothing.
  static Result call(Parameters... parameters) {
    static const auto forward_to = real<Result(Parameters...)>(kNames[kFunction]);
    const int number = ++calls[kFunction];
    if (number >= first_failing[kFunction] && number <= last_failing[kFunction]) return Result();
    if constexpr (kFunction == number_of_queue_memcpy) {
      return note_copy(forward_to(parameters...), parameters...);
    } else if constexpr (kFunction == number_of_alloc_device || kFunction == number_of_alloc_host ||
                         kFunction == number_of_alloc_shared) {
      return note_size(forward_to(parameters...), parameters...);
    } else if constexpr (kFunction == number_of_free) {
      check_free(parameters...);
    }
    return forward_to(parameters...);
  }
};

int find(const char* name) {
  for (int function = 0; function < kFunctions; ++function) {
    if (std::strcmp(kNames[function], name) == 0) return function;
  }
  std::abort();
}

}  // namespace

using AnyFunction = void (*)();

// A macro can't name the parameters of a definition. So each exported function is resolved to an instance of a template
// when its symbol is looked up. The resolvers may run before a sanitizer has started.
#define CROSSDOCK_SYCL_EXPORT(member, name, result, parameters)                                              \
  extern "C" __attribute__((no_sanitize("address", "thread", "undefined"))) AnyFunction resolve_##member() { \
    return reinterpret_cast<AnyFunction>(&Forward<number_of_##member, result parameters>::call);             \
  }                                                                                                          \
  extern "C" void exported_##member() asm(name) __attribute__((ifunc("resolve_" #member)));
CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_EXPORT)

/// Makes `count` calls of a function fail, from the nth from now on; 0 calls to make it work again.
extern "C" void crossdockSyclFail(const char* name, int nth, int count) {
  const int function = find(name);
  first_failing[function] = calls[function] + nth;
  last_failing[function] = first_failing[function] + count - 1;
}

/// Returns how often a function was called.
extern "C" int crossdockSyclCalls(const char* name) { return calls[find(name)]; }

/// Returns the number of copies under way that start in this memory, at either end.
extern "C" int crossdockSyclCopiesUnderWay(const void* memory, std::size_t size) {
  return copies_under_way(memory, size);
}

/// Returns how often memory was freed while such a copy was under way.
extern "C" int crossdockSyclEarlyFrees() { return early_frees; }

}  // namespace crossdock::device::sycl
