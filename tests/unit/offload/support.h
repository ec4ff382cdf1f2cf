#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "crossdock/device/registry.h"
#include "crossdock/offload/queue_manager.h"
#include "device/sim.h"

namespace crossdock::offload {

/// Two simulated GPUs beside the host.
class OffloadTest : public ::testing::Test {
 protected:
  OffloadTest() {
    const auto registry = std::make_shared<device::DriverRegistry>();
    registry->add(device::make_default_registry()->find("host"));
    registry->add(sim_);
    drivers_ = registry;
    queues_ = std::make_shared<const Queues>(drivers_);
  }

  static constexpr device::Device kZero{.type = device::DeviceType::kExtDev, .id = 0};
  static constexpr device::Device kOne{.type = device::DeviceType::kExtDev, .id = 1};

  std::shared_ptr<device::SimDriver> sim_ = device::make_sim_driver({.devices = 2});
  std::shared_ptr<const device::DriverRegistry> drivers_;
  std::shared_ptr<const Queues> queues_;
};

}  // namespace crossdock::offload
