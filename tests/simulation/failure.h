#pragma once

#include <stdexcept>
#include <string>

namespace crossdock::simulation {

/// What the code under test did differs from what the model says it must do.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

}  // namespace crossdock::simulation
