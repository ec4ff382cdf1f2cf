#pragma once

#include <memory>
#include <utility>

#include "device/region.h"

namespace crossdock::peers {

/// The owner of a frame that lies in memory of the peer.
struct MappedFrame {
  explicit MappedFrame(std::shared_ptr<const device::Region> memory) : region(std::move(memory)) {}
  virtual ~MappedFrame() = default;
  std::shared_ptr<const device::Region> region;
};

}  // namespace crossdock::peers
