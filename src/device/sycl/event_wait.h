#pragma once

#include "api.h"

namespace crossdock::device::sycl {

/// Waits until the event is over. Returns its status: kStatusComplete, unless SYCL couldn't wait. SYCL gives no reason
/// for that.
int wait_until_over(const Api& api, EventRef event) noexcept;

}  // namespace crossdock::device::sycl
