#pragma once

#include <optional>
#include <span>

#include "crossdock/offload/placement.h"

/// The two halves of placement(), for callers that must do something before a call of a driver.
namespace crossdock::offload {

/// Finds where work on these arrays runs, as placement() does, and puts nothing on any queue. Sets `*ordered` to true
/// if work on the queue comes after all that is pending on the arrays; else call order_placement().
Placement find_placement(std::span<const array::Tensor* const> arrays, const std::optional<device::Queue>& queue,
                         const device::DriverRegistry& drivers, bool* ordered);

/// Orders the queue of a placement after everything that is pending on the arrays, as placement() does.
void order_placement(std::span<const array::Tensor* const> arrays, const Placement& placement,
                     const device::DriverRegistry& drivers, const exchange::WaitFunction& wait);

}  // namespace crossdock::offload
