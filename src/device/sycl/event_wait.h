#pragma once

#include "api.h"

namespace crossdock::device::sycl {

/// Waits until the event is over, and gives the status that it has then: kStatusComplete, unless SYCL couldn't wait,
/// for which it gives no reason.
int wait_until_over(const Api& api, EventRef event) noexcept;

}  // namespace crossdock::device::sycl
