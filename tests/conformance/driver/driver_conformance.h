#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "crossdock/device/driver.h"

namespace crossdock::device {

/// One driver under the suite, with what it does differently: declared here, so that each difference is a checked
/// statement about the driver and not a test left out.
struct DriverCase {
  std::string name;
  std::function<std::shared_ptr<Driver>()> make;
  /// The kinds of memory that it allocates; every other kind must be refused as unsupported.
  std::vector<MemoryKind> kinds;
  /// Of those, kinds that can be exported to another process; others must be refused.
  std::vector<MemoryKind> exportable;
  /// A native queue or event of somebody else for the test to wrap; null: the driver has none, and must refuse any.
  std::function<std::shared_ptr<void>()> make_native_queue;
  std::function<std::shared_ptr<void>()> make_native_event;
  /// True if work may still run when the verb that started it returns.
  bool asynchronous = false;
  /// True if wrap_queue() copies what it is given: the same queue, under a handle of the driver's.
  bool copies_queues = false;
  /// True if imported memory can be written.
  bool import_writable = false;
  /// What memory of a kind says that its device is; null: the context's device, for all of them.
  std::function<Device(MemoryKind, const Device&)> device_of = nullptr;
  /// True if machines may lack it: make() gives null there, and the suite is skipped.
  bool optional = false;
};

inline std::ostream& operator<<(std::ostream& out, const DriverCase& driver_case) { return out << driver_case.name; }

class DriverConformance : public ::testing::TestWithParam<DriverCase> {
 protected:
  void SetUp() override;

  const DriverCase& quirks() const { return GetParam(); }
  /// Host bytes as a view.
  static BufferRef host(std::string& bytes);
  /// Puts bytes into device memory, and gets them out: two copies and an explicit wait.
  void upload(const BufferRef& to, std::string bytes);
  std::string download(const BufferRef& from);
  /// What memory of this kind must say.
  Device device_of(MemoryKind kind) const {
    return quirks().device_of ? quirks().device_of(kind, context_->device()) : context_->device();
  }
  Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing = Sharing::kPrivate) {
    return context_->allocate(size, kind, sharing, *queue_);
  }
  /// Waits for all that is on the queue.
  void finish();

  std::shared_ptr<Driver> driver_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace crossdock::device
