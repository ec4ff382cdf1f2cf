#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/device/buffer.h"
#include "crossdock/device/device.h"
#include "crossdock/device/event.h"
#include "crossdock/device/queue.h"

namespace crossdock::device {

/// Whether memory can be handed to another process: most drivers must know when they allocate it.
enum class Sharing : std::uint8_t { kPrivate, kExportable };

/// What a driver knows about an address.
struct PointerInfo {
  Device device;
  MemoryKind kind = MemoryKind::kHost;
  void* address = nullptr;  ///< Where the device finds it: differs from the host's address where host memory is mapped.
  void* base = nullptr;     ///< Start of the allocation that it lies in; null if unknown.
  std::uint64_t size = 0;   ///< Of that allocation, in bytes; 0 if unknown.
  void* context = nullptr;  ///< The native context that it belongs to; null if there is none, or it is unknown.
  bool host_accessible = false;  ///< Any host thread may read it, once the work that writes it is done.
  bool managed = false;          ///< The driver moves it to whoever touches it.
};

/// What a driver says of one of its devices, for people and for filter strings (filter.h).
struct DeviceInfo {
  Device device;
  DeviceClass device_class = DeviceClass::kGpu;
  std::string backend;  ///< What reaches it, in lower case: "cuda", or SYCL's "opencl", "level_zero"; or empty.
  std::string name;     ///< As the vendor calls it.
  std::vector<MemoryKind> kinds;  ///< What Context::allocate() gives there.
  std::uint64_t memory = 0;       ///< Bytes that the device has; 0 if unknown.
};

/// Memory on its way to another process: opaque bytes, a descriptor, or both, as the driver needs. Move-only.
struct MemoryHandle {
  std::string driver;             ///< Who made it, and alone can read it.
  std::vector<std::byte> opaque;  ///< Bytes to carry as they are.
  UniqueFd descriptor;            ///< To be passed over a Unix socket; empty if the driver needs none.
  std::uint64_t offset = 0;       ///< Of the memory in what the handle names, in bytes.
  std::uint64_t size = 0;         ///< Of the memory, in bytes.
};

/// One device, opened: the table of verbs that everything else is built on. Made by Driver::open(); alive as long as
/// its owner, and the buffers, queues and events made by it keep alive what they need. Thread-safe.
///
/// Every verb that starts work names its queue and returns without waiting for it; only wait() waits. What is read must
/// stay valid, and what is written untouched, until the work is done. A verb that a driver can't do throws
/// UnsupportedError, which names the driver. All throw InvalidArgumentError for a queue or memory of another device,
/// and then nothing was started.
class CROSSDOCK_EXPORT Context {
 public:
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  virtual std::string_view driver_name() const noexcept = 0;
  virtual Device device() const noexcept = 0;

  // Memory

  /// New memory, not zeroed, aligned to 64 bytes at least, to be used by work on `queue`, or ordered after it. Size 0
  /// gives a Buffer of no memory (null). Throws ResourceError.
  virtual Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) = 0;
  /// Takes memory that somebody else made; it lives as long as `owner`, whose deleter runs when the Buffer is dropped,
  /// and on failure of this call too, if the caller keeps no copy. Checks that it belongs to this device as far as the
  /// driver can tell.
  virtual Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) = 0;
  /// Takes a buffer, and drops it once the work that is on `queue` now is done. Never waits for that. On a throw the
  /// buffer is the caller's as before: the queue may still work on it, so that it must not be dropped before that work
  /// is done. Memory of a peer or of the host too, and a share of any, if work here used it: its owner goes then.
  virtual void free(Buffer&& buffer, const Queue& queue) = 0;
  /// Copies `from` to `to` (same size; overlapping or read-only targets: InvalidArgumentError): any two kinds of memory
  /// that the device reaches, ordinary host memory included.
  virtual void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) = 0;
  /// The same, and an event that stands for the end of it and of what was on the queue before: what record() would give
  /// next, for less where a driver's copies have events of their own.
  virtual Event copy_recorded(const BufferRef& to, const BufferRef& from, const Queue& queue) {
    copy(to, from, queue);
    return record(queue);
  }
  /// What an address points to. Host memory that the driver knows nothing of is kCpu and kHost. Never reads the memory.
  virtual PointerInfo describe(const void* pointer) const = 0;
  /// True if work on `queue` may use the memory where it is: it is bound to the queue's device and context, or they
  /// reach it. False is no error: a copy is what helps. Never reads the memory.
  virtual bool accessible(const BufferRef& memory, const Queue& queue) const = 0;

  /// Memory for another process; `memory` lies in a buffer that this context allocated as kExportable. It must outlive
  /// the handle; what the importer holds keeps the memory, but not our right to write it.
  virtual MemoryHandle export_memory(const BufferRef& memory) = 0;
  /// The memory that a peer exported: checked, as hostile input is. Takes the handle, also on failure. Read-only where
  /// the driver can't have two writers. Throws ProtocolError (the handle is wrong), ResourceError. `where` names it in
  /// errors.
  virtual Buffer import_memory(MemoryHandle handle, const std::string& where) = 0;

  // Queues

  virtual Queue make_queue() = 0;
  /// A queue that somebody else made, as a device's interface has it; `owner` keeps it alive while anybody holds the
  /// Queue, null if the caller sees to that. A handle that means another queue on every thread gives that of the
  /// calling one, and other threads' calls that name it throw InvalidArgumentError.
  virtual Queue wrap_queue(void* native, std::shared_ptr<void> owner) = 0;
  /// Work put on `queue` from now on starts after `event`. Doesn't wait, except for drivers that can't order otherwise.
  /// Throws the failure that the event carries already.
  virtual void order_after(const Queue& queue, const Event& event) = 0;

  // Events; destroyed with their last copy

  /// A new event that stands for the end of the work that is on `queue` now. One that carries the failure where it is
  /// known already that this work failed.
  virtual Event record(const Queue& queue) = 0;
  /// An event that somebody else made and recorded; `owner` as in Event. Null is an event that is complete.
  virtual Event wrap_event(void* native, std::shared_ptr<void> owner) = 0;
  /// True once the work is done. Never waits. Throws the failure of that work.
  virtual bool query(const Event& event) = 0;
  /// Waits, in the calling thread, until the work is done. Throws the failure of that work.
  virtual void wait(const Event& event) = 0;

 protected:
  Context() = default;
};

/// A family of devices behind one vendor library. Linked in; the vendor's library is opened at run time. Thread-safe.
class CROSSDOCK_EXPORT Driver {
 public:
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  /// As in "host", "cuda".
  virtual std::string_view name() const noexcept = 0;
  /// Of the vendor's library, or of the system.
  virtual std::string version() const = 0;
  virtual std::vector<Device> devices() const = 0;
  /// Grows whenever devices() gives others than before.
  virtual std::uint64_t devices_version() const noexcept { return 0; }
  /// Throws NotFoundError if there is no such device.
  virtual DeviceInfo info(const Device& device) const = 0;
  /// Why devices() gives none, for reports; empty if it gives some, or there is nothing to say.
  virtual std::string why_no_devices() const { return {}; }
  /// True if memory of this type is this driver's.
  virtual bool handles(DeviceType type) const noexcept = 0;
  /// Returns the device whose context and queues work on memory of `device`: `device` itself, except for pinned and
  /// managed memory, which have device types of their own.
  virtual Device owning_device(const Device& device) const noexcept { return device; }
  /// The device of a queue that somebody else made, by its handle as Context::wrap_queue() takes it. Nothing where each
  /// device has one by this handle (CUDA's default streams), where the handle is no queue as far as the driver can
  /// tell, and where it can't tell. Opens no device.
  virtual std::optional<Device> device_of_queue(void* /*native*/) const { return std::nullopt; }
  /// The device that the calling thread uses by the interface of the vendor's library (that of CUDA's current context).
  /// Nothing where it uses none, or there is no such thing. Opens no device.
  virtual std::optional<Device> current_device() const { return std::nullopt; }
  /// Opens a device in its usual context, or in `native_context`, which must outlive the result. Throws NotFoundError
  /// (no such device), UnsupportedError (the driver has no contexts).
  virtual std::shared_ptr<Context> open(const Device& device, void* native_context = nullptr) = 0;

 protected:
  Driver() = default;
};

}  // namespace crossdock::device
