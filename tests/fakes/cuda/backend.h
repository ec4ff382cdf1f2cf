#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/device/driver.h"

/// The simulated devices under the fake: one driver for the process.
namespace crossdock::cuda_fake {

/// `memory`: bytes that each device has.
std::shared_ptr<device::Driver> start_backend(int devices, std::uint64_t delay_us, std::uint64_t memory);
void set_backend_delay(std::uint64_t delay_us);
/// The next copy fails when it runs.
void fail_backend_work();
/// Forgotten orders found so far.
std::vector<std::string> backend_faults();
/// Sets the faults to none, and the delay.
void reset_backend();

}  // namespace crossdock::cuda_fake
