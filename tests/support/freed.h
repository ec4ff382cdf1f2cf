#pragma once

#include <cstdint>
#include <vector>

#include "dissociated/lease_ledger.h"

namespace crossdock {

/// The holder of each lease that ended.
inline std::vector<std::uint64_t> holders(const std::vector<dissociated::Freed>& freed) {
  std::vector<std::uint64_t> all;
  for (const dissociated::Freed& each : freed) all.insert(all.end(), each.leases, each.holder);
  return all;
}

}  // namespace crossdock
