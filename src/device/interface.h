#pragma once

#include <cstdint>

#include "crossdock/device/device.h"

/// The rules of vendors' interfaces that protocols rely on. They hold whether or not the vendor's library was found: an
/// array may be passed on without it.
namespace crossdock::device {

/// The rules for one vendor's queues and memory.
struct Interface {
  /// The device type whose queues work on the memory. Pinned and managed memory have types of their own.
  DeviceType device;
  /// Work of which a protocol names no stream is on the default stream.
  bool has_default_stream = false;
  /// The handle of the default stream as protocols show it. Null if no handle names it alone.
  void* default_stream = nullptr;
  /// Handles up to this one, null included, name a stream of each device. Null: no handle does.
  void* last_of_each_device = nullptr;
  /// Queues of two of its devices can be ordered after each other.
  bool orders_across_devices = false;
  /// All kinds of memory have one device type, and only the driver tells them apart.
  bool one_type_for_all_kinds = false;
  /// Throws InvalidArgumentError if no stream of this interface has the number `stream`, which isn't negative. Null:
  /// each may be a handle.
  void (*check_stream)(std::int64_t stream) = nullptr;
};

/// Returns the rules for memory of a device type. Types without rules of their own have queues of the same type, and no
/// default stream.
Interface interface_of(DeviceType type) noexcept;

// By vendor, in its folder.
Interface cuda_interface() noexcept;
Interface rocm_interface() noexcept;
Interface sycl_interface() noexcept;

}  // namespace crossdock::device
