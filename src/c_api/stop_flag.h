#pragma once

#include <atomic>
#include <memory>

#include "crossdock/c_api/stop.h"
#include "crossdock/transport/options.h"

struct crossdock_stop {
  std::shared_ptr<std::atomic<bool>> flag;
};

namespace crossdock::c_api {

/// Returns the hook that blocking calls are given; an empty one for null. It shares the flag with the handle.
inline transport::InterruptHook hook_of(const crossdock_stop* stop) {
  if (stop == nullptr) return {};
  return [flag = stop->flag] { return flag->load(std::memory_order_relaxed); };
}

}  // namespace crossdock::c_api
