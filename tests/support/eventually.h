#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace crossdock::testing {

/// Waits until `holds` is true, for what another thread or process does without an event that a test could wait for.
template <typename Condition>
::testing::AssertionResult eventually(Condition holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return ::testing::AssertionFailure() << "not within 20 s";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ::testing::AssertionSuccess();
}

}  // namespace crossdock::testing
