#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

namespace crossdock::device {

/// Says whether memory can be handed to another process. Most drivers must know it when they allocate the memory.
enum class Sharing : std::uint8_t {
  kPrivate,     ///< For this process alone: export_memory() may throw.
  kExportable,  ///< Context::export_memory() can export it. Throws UnsupportedError where the driver can't.
};

/// A driver's knowledge of an address.
struct PointerInfo {
  Device device;                        ///< Of pinned and managed memory, the device type of its own.
  MemoryKind kind = MemoryKind::kHost;  ///< Which side may access it.
  void* address = nullptr;       ///< The device's address; differs from the host's address where host memory is mapped.
  void* host_address = nullptr;  ///< The host's address, for kHost memory that the driver knows; else null.
  void* base = nullptr;          ///< Start of the allocation that it lies in; null if unknown.
  std::uint64_t size = 0;        ///< Size of that allocation in bytes; 0 if unknown.
  void* context = nullptr;       ///< The native context that it belongs to; null if there is none, or it is unknown.
  std::shared_ptr<void> other_context{};  ///< The same if it isn't the device's usual one, else null. Kept alive.
  bool host_accessible = false;           ///< Any host thread may read it, once the work that writes it is done.
  bool managed = false;                   ///< The driver moves it to the side that accesses it.
};

/// A driver's description of one of its devices, for people and for filter strings (registry.h).
struct DeviceInfo {
  Device device;                                 ///< As Driver::devices() has it.
  DeviceClass device_class = DeviceClass::kGpu;  ///< Filter strings select by it.
  std::string backend;  ///< The interface to it, in lower case: "cuda", or SYCL's "opencl", "level_zero"; or empty.
  std::string name;     ///< The vendor's name for it.
  std::vector<MemoryKind> kinds;  ///< The kinds that Context::allocate() supports there.
  std::uint64_t memory = 0;       ///< Bytes that the device has; 0 if unknown.
};

/// A context of a device, by its native handle.
struct DeviceContext {
  Device device;              ///< Of a native context with several devices, one of them.
  NativeContext native = {};  ///< Isn't kept alive.
};

struct MemoryHandle;

/// One opened device: the table of verbs that everything else is built on. Made by Driver::open(). It lives as long as
/// its owner. The buffers, queues and events that it makes keep alive all that they need. Thread-safe.
///
/// Every verb that starts work takes a queue, and returns without waiting for the work; only wait() waits. With a queue
/// that isn't in_order(), record(), copy(), order_after() and allocate() may wait, too, for work that is on it. Until
/// the work is done, memory that it reads must stay valid, and memory that it writes must not be touched. A verb that a
/// driver can't do throws UnsupportedError, which names the driver. All verbs throw InvalidArgumentError for a queue or
/// memory of another device; then nothing was started.
class CROSSDOCK_EXPORT Context {
 public:
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  /// Returns the name of its driver, as Driver::name(), for messages.
  virtual std::string_view driver_name() const noexcept = 0;
  /// Returns the device that was opened.
  virtual Device device() const noexcept = 0;
  /// Returns the native context that the device was opened in; none for its usual one. Device memory of one native
  /// context can't be used in another.
  virtual NativeContext native_context() const noexcept { return {}; }

  /// Names the device in the same way in every process of this machine, for memory that is handed from one process to
  /// another: bytes, at most 64. Empty if this context's memory can't be exported.
  virtual std::string identity() const { return {}; }

  // Memory

  /// Allocates memory, not zeroed, aligned to at least 64 bytes. Only work on `queue`, or work ordered after it, may
  /// use the memory. Size 0 returns a Buffer without memory (null). Throws ResourceError.
  virtual Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) = 0;
  /// Takes memory that other code made. The memory lives as long as `owner`. The deleter of `owner` runs when the
  /// Buffer is dropped, and on failure of this call too, if the caller keeps no copy. Checks that the memory belongs to
  /// this device, as far as the driver can tell.
  virtual Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) = 0;
  /// Takes a buffer, and drops it once the work that is on `queue` now is done. Never waits for that work. On a throw
  /// the caller still owns the buffer: the queue may still work on it, so the caller must not drop it before that work
  /// is done. The buffer may also be memory of a peer device or of the host, or a share of any memory, if work here
  /// used it: its owner is dropped once that work is done.
  virtual void free(Buffer&& buffer, const Queue& queue) = 0;
  /// Copies `from` to `to`, which have the same size. Both may be any kind of memory that the device reaches, including
  /// ordinary host memory. Throws InvalidArgumentError if they overlap or the target is read-only.
  virtual void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) = 0;
  /// Copies like copy(). Returns an event for the end of the copy and of all work that was on the queue before, like
  /// record() after the copy. It costs less than record() with drivers whose copies have events of their own.
  virtual Event copy_recorded(const BufferRef& to, const BufferRef& from, const Queue& queue) {
    copy(to, from, queue);
    return record(queue);
  }
  /// Describes the memory at an address. Host memory that the driver doesn't know is kCpu and kHost. Never reads the
  /// memory.
  virtual PointerInfo describe(const void* pointer) const = 0;
  /// Returns true if work on `queue` may use the memory without a copy: the memory is bound to the queue's device and
  /// context, or they can reach it. False is no error: copy the memory then. Never reads the memory.
  virtual bool accessible(const BufferRef& memory, const Queue& queue) const = 0;

  /// Exports memory to another process. `memory` lies in a buffer that this context allocated as kExportable, and must
  /// outlive the handle. An importer keeps the memory itself alive, but not our right to write it. By default throws
  /// UnsupportedError: memory handles are for the drivers of this library.
  virtual MemoryHandle export_memory(const BufferRef& memory);
  /// Imports memory that a peer exported. Checks the handle as hostile input. Takes the handle, also on failure. The
  /// memory is read-only if the driver doesn't allow two writers. `where` names the handle in errors. Throws
  /// ProtocolError if the handle is wrong, as every handle is by default; ResourceError.
  virtual Buffer import_memory(MemoryHandle handle, const std::string& where);

  // Queues

  /// Makes a new in-order queue in this context. Throws ResourceError and the errors of the vendor's library.
  virtual Queue make_queue() = 0;
  /// Wraps a queue that other code made. `native` is the queue of the device's interface. `owner` keeps it alive as
  /// long as a copy of the Queue exists; null if the caller keeps it alive. For a handle that means another queue on
  /// every thread, returns the queue of the calling thread; calls of other threads with that Queue throw
  /// InvalidArgumentError.
  virtual Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner) = 0;
  /// Returns true if all work on the queue runs in the order in which it was put there.
  virtual bool in_order(const Queue& /*queue*/) const { return true; }
  /// Orders work that is put on `queue` from now on after `event`. Doesn't wait, except with drivers that have no other
  /// way to order. Throws the failure that the event carries already.
  virtual void order_after(const Queue& queue, const Event& event) = 0;

  // Events. They are destroyed with their last copy.

  /// Returns a new event for the end of the work that is on `queue` now. If this work is already known to have failed,
  /// the event carries the failure.
  virtual Event record(const Queue& queue) = 0;
  /// Wraps an event that other code made and recorded; `owner` is as in Event. Null is a complete event.
  virtual Event wrap_event(NativeEvent native, std::shared_ptr<void> owner) = 0;
  /// Returns true if the work is done. Never waits. Throws the failure of that work.
  virtual bool query(const Event& event) = 0;
  /// Waits, in the calling thread, until the work is done. Throws the failure of that work.
  virtual void wait(const Event& event) = 0;

 protected:
  Context() = default;
};

/// A family of devices behind one vendor library. The driver is linked in; the vendor's library is opened at run time.
/// Thread-safe.
class CROSSDOCK_EXPORT Driver {
 public:
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  /// Returns the driver's name, as in "host" or "cuda".
  virtual std::string_view name() const noexcept = 0;
  /// Returns the version of the vendor's library, or of the system.
  virtual std::string version() const = 0;
  /// Returns the devices that the driver can open now, in its order; none if the machine has none. Starts the vendor's
  /// library if that is needed. Throws ForkError in a child of a process that has started it.
  virtual std::vector<Device> devices() const = 0;
  /// Returns a number that grows whenever the result of devices() changes.
  virtual std::uint64_t devices_version() const noexcept { return 0; }
  /// Throws NotFoundError if there is no such device.
  virtual DeviceInfo info(const Device& device) const = 0;
  /// Says why devices() returns no device, for reports. Empty if it returns some, or if there is nothing to say.
  virtual std::string why_no_devices() const { return {}; }
  /// Returns true if memory of this type belongs to this driver.
  virtual bool handles(DeviceType type) const noexcept = 0;
  /// Returns the device whose context and queues work on memory of `device`: `device` itself, except for pinned and
  /// managed memory, which have device types of their own.
  virtual Device owning_device(const Device& device) const noexcept { return device; }
  /// Returns true if a Context serves one native context alone. Else a device's usual Context serves all of them.
  virtual bool one_context_each() const noexcept { return false; }
  /// Returns true if work on a queue of a context can access memory of a context of this driver. Two devices are told
  /// apart only if they share no context: copies between others are the driver's business.
  virtual bool reaches(const DeviceContext& memory, MemoryKind kind, const DeviceContext& queue) const {
    return kind != MemoryKind::kDevice || memory.native == queue.native;
  }
  /// Returns a queue for work in a context; the same one as long as it is held, if the driver can tell. Throws as
  /// open().
  virtual Queue queue_in(const DeviceContext& context) { return open(context.device, context.native)->make_queue(); }
  /// Returns the context of a queue that other code made, by its handle as Context::wrap_queue() takes it. Returns
  /// nothing if every device has a queue with this handle (CUDA's default streams), if the handle is no queue as far as
  /// the driver can tell, or if the driver can't tell. Opens no device.
  virtual std::optional<DeviceContext> context_of_queue(NativeQueue /*native*/) const { return std::nullopt; }
  /// Returns the context that the calling thread currently uses in the vendor's library. Returns nothing if it uses
  /// none, or if the library has no current context. Opens no device.
  virtual std::optional<DeviceContext> current_context() const { return std::nullopt; }
  /// Opens a device in its usual context, or in `native_context`, which must outlive the result. Throws NotFoundError
  /// if there is no such device, UnsupportedError if the driver has no contexts.
  virtual std::shared_ptr<Context> open(const Device& device, NativeContext native_context = {}) = 0;

 protected:
  Driver() = default;
};

}  // namespace crossdock::device
