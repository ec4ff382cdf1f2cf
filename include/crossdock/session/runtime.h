#pragma once

#include <memory>

#include "crossdock/core/export.h"
#include "crossdock/device/region.h"
#include "crossdock/device/registry.h"
#include "crossdock/offload/queues.h"

namespace crossdock::session {

/// What servers and arrays of a process share: which arenas there are, so that publishing knows its own memory, and the
/// drivers. Thread-safe.
class CROSSDOCK_EXPORT Runtime {
 public:
  Runtime();
  ~Runtime();

  /// A new arena that servers of this runtime recognise. Dropping it drops the memory, unless it was published.
  std::shared_ptr<device::Arena> make_arena(std::uint64_t reserve = 0);
  /// The arena that holds these bytes, or null.
  std::shared_ptr<device::Arena> find_arena(const void* pointer, std::uint64_t size) const;

  /// How drivers are looked for. False, and nothing is changed, if they were already.
  bool set_driver_options(device::DriverOptions options);
  /// Every driver that this version has, looked for when they are asked for the first time: opening vendors' libraries
  /// takes its time.
  const std::shared_ptr<const device::DriverRegistry>& drivers() const;
  /// Their queues, by what names them.
  const std::shared_ptr<const offload::Queues>& queues() const;

  /// The one used where none is named.
  static const std::shared_ptr<Runtime>& default_runtime();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
