#pragma once

#include <utility>

#include "crossdock/c_api/status.h"

/// Where C++ exceptions become status codes: the only place.
namespace crossdock::c_api {

/// Writes the exception that is being handled to `*error` (null: nowhere) as a failure of `call`, and returns its
/// status. `call` must live forever.
crossdock_status report(const char* call, crossdock_error** error) noexcept;

/// Runs `body`, and returns CROSSDOCK_OK or the status of what it throws. Every function of the C interface that can
/// fail is one call of this, with its own `__func__` as `call`.
template <class Body>
crossdock_status guarded(const char* call, crossdock_error** error, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return CROSSDOCK_OK;
  } catch (...) {
    return report(call, error);
  }
}

}  // namespace crossdock::c_api
