#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "crossdock/device/pool.h"
#include "crossdock/peers/message.h"
#include "crossdock/session/runtime.h"
#include "device/region.h"
#include "peers/copy_in_parts.h"

namespace crossdock::peers {

/// A frame in memory that can be handed to another process. The memory stays as it is as long as this exists.
struct SharedFrame {
  std::shared_ptr<const device::Region> region;  ///< With the lease of a pool's block.
  std::uint64_t offset = 0;                      ///< Of the first byte in it.
  std::shared_ptr<const void> keep;              ///< What keeps memory that was received; null: a pool's block.
};

/// Finds or makes memory of this process that a peer can map. Thread-safe.
class FrameSharer {
 public:
  /// `pool`: for copies; `help`: with large ones.
  FrameSharer(std::shared_ptr<session::Runtime> runtime, std::shared_ptr<device::Pool> pool, CopyHelp help = {})
      : runtime_(std::move(runtime)), pool_(std::move(pool)), help_(std::move(help)) {}

  /// Returns the memory that the frame lies in, if that is a pool's, or was received and has a descriptor, and nobody
  /// has written to it since; else nothing. Copies nothing. Throws nothing but std::bad_alloc: where the system
  /// refuses, for example for lack of mappings, returns nothing.
  std::optional<SharedFrame> find(const OutgoingFrame& frame) const;

  /// Copies frames into one block of the pool, each 64-aligned. Returns their memory, in the same order. Throws
  /// ResourceError.
  std::vector<SharedFrame> copy(std::span<const OutgoingFrame> frames) const;

 private:
  const std::shared_ptr<session::Runtime> runtime_;
  const std::shared_ptr<device::Pool> pool_;
  const CopyHelp help_;
};

}  // namespace crossdock::peers
