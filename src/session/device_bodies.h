#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "crossdock/device/driver.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// Memory of a device for the bodies that a stream's messages carry by value. Bodies of addresses, which the host
/// reads, don't go there. Small ones lie one after the other in blocks, since a driver's allocation takes 2 MiB at
/// least; a block is freed when its last body is. Thread-safe.
class DeviceBodies final : public transport::BodyMemory {
 public:
  explicit DeviceBodies(std::shared_ptr<device::Context> context);

  device::Device device() const noexcept override { return context_->device(); }
  bool takes(std::uint64_t tag) const noexcept override;
  void write(std::byte* to, ByteSpan from) override;
  /// Nothing is pending on the memory. It is of the kind that UCX can register, as memory of CUDA's pools isn't.
  std::shared_ptr<std::byte> allocate(std::uint64_t size) override;

  static constexpr std::uint64_t kBlock = std::uint64_t{2} << 20;
  /// Larger bodies have memory of their own.
  static constexpr std::uint64_t kMostInBlock = kBlock / 2;

  /// Returns memory of a device that is there already as that of a body. `owner` keeps it.
  static std::shared_ptr<std::byte> lend(std::shared_ptr<device::Context> context, std::byte* memory,
                                         std::shared_ptr<const void> owner);
  /// Returns the context of the device that a received body is on, by the body's owner; null: it is on the host.
  static std::shared_ptr<device::Context> context_of(const std::shared_ptr<const void>& owner) noexcept;

 private:
  std::shared_ptr<device::Buffer> make(std::uint64_t size);

  const std::shared_ptr<device::Context> context_;
  const device::Queue queue_;
  std::mutex mutex_;
  std::shared_ptr<device::Buffer> block_;  // null: none yet
  std::uint64_t used_ = 0;                 // of block_
};

}  // namespace crossdock::session
