#include "crossdock/c_api/stop.h"

#include <atomic>
#include <memory>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/stop_flag.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.

static_assert(std::atomic<bool>::is_always_lock_free, "crossdock_stop_set() may be called in a signal handler");

crossdock_status crossdock_stop_new(crossdock_stop** stop, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_stop*& out = result(stop, "stop");
    out = new crossdock_stop{std::make_shared<std::atomic<bool>>(false)};
  });
}

void crossdock_stop_release(crossdock_stop** stop) { release(stop); }

void crossdock_stop_set(crossdock_stop* stop) {
  if (stop != nullptr) stop->flag->store(true, std::memory_order_relaxed);
}

void crossdock_stop_clear(crossdock_stop* stop) {
  if (stop != nullptr) stop->flag->store(false, std::memory_order_relaxed);
}

int32_t crossdock_stop_is_set(const crossdock_stop* stop) {
  return stop != nullptr && stop->flag->load(std::memory_order_relaxed) ? 1 : 0;
}
