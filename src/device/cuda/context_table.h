#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "api.h"

namespace crossdock::device::cuda {

class ContextHold;

/// The contexts that are held in this process. Keeps none of them. Thread-safe.
class ContextTable {
 public:
  void add(const std::shared_ptr<ContextHold>& hold);
  /// Returns the holder of a context that is alive; null if there is none.
  std::shared_ptr<ContextHold> find(CUcontext context) const noexcept;
  /// Returns the holder of any context that is alive, a retained one if there is one. Returns null if there is none.
  std::shared_ptr<ContextHold> any() const noexcept;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<ContextHold>> held_;
};

}  // namespace crossdock::device::cuda
