#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace crossdock::testing {

/// The text of the exception of class `E` that `work` throws; a failure, and "", if it throws none or another.
template <typename E, typename Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no exception";
  return {};
}

}  // namespace crossdock::testing
