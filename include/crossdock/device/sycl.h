#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Returns the places where dpctl's library over SYCL is looked for: only the library that the environment variable
/// CROSSDOCK_SYCL_LIBRARY names; without that variable, `first`, then the loader's path.
CROSSDOCK_EXPORT std::vector<std::string> sycl_library_candidates(const std::vector<std::string>& first = {});

/// The options of a new queue.
struct SyclQueueOptions {
  Device device{};                 ///< kOneApi; ignored if `native_device` is given.
  NativeDevice native_device{};    ///< A sub-device, or a root device.
  NativeContext native_context{};  ///< One that has the device; none: dpctl's default for the device.
  bool in_order = true;            ///< Work runs in the order in which it is put there.
  bool profiling = false;          ///< Events have the times of their work.
};

/// The properties of a queue.
struct SyclQueueInfo {
  bool in_order = false;                ///< As SyclQueueOptions::in_order.
  bool profiling = false;               ///< As SyclQueueOptions::profiling.
  bool sub_device = false;              ///< Works on a part of the device.
  std::shared_ptr<void> context;        ///< A `sycl::context*`, valid as long as this is held.
  std::shared_ptr<void> native_device;  ///< A `sycl::device*`, likewise.
};

/// The driver "sycl", for the devices that SYCL knows, over dpctl's C library and the SYCL run time that comes with it.
///
/// The first call that needs SYCL's devices (devices(), open()) starts SYCL, and no earlier call does. So a process
/// that only lists drivers may fork and use SYCL in the child. Once SYCL is started, the process's children can't use
/// it: their calls here throw ForkError, and objects that they drop are left to the parent. Everything made here should
/// be dropped before the process ends, because SYCL shuts itself down then.
///
/// - **Devices** are kOneApi, by their index in `sycl::device::get_devices()`, as in DLPack. All kinds of USM memory
///   are of that type; MemoryKind tells them apart. info() has SYCL's backend: "opencl", "level_zero", "cuda", "hip".
/// - **Contexts**: each `sycl::queue` has its own context, so one Context of a device serves queues of every
///   `sycl::context` on that device and its sub-devices. Memory is allocated in the queue's context, and freed in the
///   context that it was allocated in. make_queue() uses the device's default context, which dpctl and libraries built
///   on it use too, or a copy of the context that open() was given.
/// - **Queues** are `sycl::queue*`. Equal queues have one native handle as long as one of them is held, so Queue's ==
///   is SYCL's. wrap_queue() copies the queue: it needs no owner, and the handle is ours. Queues of other libraries may
///   be out-of-order: work that is put on them here starts after all work that they hold. For such a queue record()
///   and copy() wait in the calling thread until that work is over, and order_after() until its event is: an event of
///   the queue may be over before work that SYCL holds back. allocate() and wait() wait likewise for those on which
///   memory was freed. Work that another library puts on such a queue later may still overtake our work while SYCL
///   holds back earlier work; so wait for the event before another library uses the memory. A dropped queue lives on
///   until 64 more are dropped: the CPU's run time can hang if a queue ends together with its work. To pass a queue on
///   as a `sycl::queue*`, hold the Queue for as long as the pointer is used.
/// - **Events** are `sycl::event*`, like `sync_event` of the Arrow C Device data interface. If work failed, the events
///   on which SYCL reports it fail too: SystemError with SYCL's code.
/// - **Memory**: dropping it may wait until the device is idle. Context::free() calls no function of SYCL, so that a
///   host task may drop memory of which it is the last owner: a later verb of the context notes the position of the
///   queue, and a verb after that frees the memory. The position of an out-of-order queue is noted by a verb that waits
///   for that queue anyhow, or by allocate() or wait(). A copy runs in the queue's context: kDevice memory of another
///   context is an UnsupportedError, and is copied by way of the host; kHost and kShared memory of another context is
///   host memory to the queue. describe() knows memory of the device's default context, of the context that was opened,
///   and of the contexts of queues that are held; its PointerInfo::context is valid while one of those exists. The
///   start and end of an allocation are known for memory that was allocated here. adopt() throws for memory that is in
///   none of these contexts.
/// - **Memory handles**: none. SYCL shares no memory between processes.
/// - **Errors**: dpctl reports only on standard error why a call failed: sometimes by default, else with
///   DPCTL_VERBOSITY=2 in the environment.
///
/// Thread-safe. All functions throw ForkError, as above, and InvalidArgumentError for null.
class CROSSDOCK_EXPORT SyclDriver : public Driver {
 public:
  /// Wraps a queue like Context::wrap_queue(), but of any device: Queue::device() says which. For a queue that is held
  /// already, this costs one look-up. Throws InvalidArgumentError for a device that SYCL doesn't list.
  virtual Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner = nullptr) = 0;
  /// Makes a queue. Without `native_context`, a sub-device gets the context that dpctl chooses: one of its own on
  /// backends that can't use the parent's. Throws NotFoundError if there is no such device, InvalidArgumentError if the
  /// context doesn't have the device.
  virtual Queue make_queue(const SyclQueueOptions& options) = 0;
  /// Returns the in-order queue for work with memory of a `sycl::context*`, if only the context is known. The queue is
  /// on the device that `pointer` belongs to, or on the context's first device if it is null. Returns the same queue as
  /// long as it is held. Throws InvalidArgumentError if the pointer isn't bound to the context.
  virtual Queue queue_in(NativeContext native_context, const void* pointer = nullptr) = 0;
  using Driver::queue_in;

  /// Returns the properties of a queue. This and same_context() throw InvalidArgumentError for a queue of another
  /// driver.
  virtual SyclQueueInfo queue_info(const Queue& queue) const = 0;
  /// Returns true if both queues have the same context, so that memory of one queue's context belongs to the other's.
  virtual bool same_context(const Queue& queue, const Queue& other) const = 0;

  /// Splits a device into parts of `compute_units` each. Returns them as `sycl::device*`, valid as long as they are
  /// held; returns none if SYCL can't split it so.
  virtual std::vector<std::shared_ptr<void>> sub_devices(const Device& device, std::uint32_t compute_units) = 0;
};

/// Makes the driver on the first of `candidates` that is dpctl's library; null if none is. `*tried`, if given, gets a
/// line for each candidate that isn't: its name and the reason.
CROSSDOCK_EXPORT std::shared_ptr<SyclDriver> make_sycl_driver(const std::vector<std::string>& candidates,
                                                              std::vector<std::string>* tried = nullptr);

}  // namespace crossdock::device
