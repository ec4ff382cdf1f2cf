#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Where dpctl's library over SYCL is looked for: what the environment variable CROSSDOCK_SYCL_LIBRARY names, and then
/// nothing else; without it, `first`, then the loader's path.
CROSSDOCK_EXPORT std::vector<std::string> sycl_library_candidates(const std::vector<std::string>& first = {});

/// A queue to be made.
struct SyclQueueOptions {
  Device device{};                 ///< kOneApi; not looked at where `native_device` is given.
  void* native_device = nullptr;   ///< A `sycl::device*`: a sub-device, or a root device.
  void* native_context = nullptr;  ///< A `sycl::context*` that has the device; null: dpctl's default for the device.
  bool in_order = true;
  bool profiling = false;
};

/// What a queue is.
struct SyclQueueInfo {
  bool in_order = false;
  bool profiling = false;
  bool sub_device = false;              ///< Works on a part of the device.
  std::shared_ptr<void> context;        ///< A `sycl::context*`, valid as long as this is held.
  std::shared_ptr<void> native_device;  ///< A `sycl::device*`, likewise.
};

/// The driver "sycl", of the devices that SYCL knows, over dpctl's C library and the SYCL run time that it brings.
///
/// SYCL itself is started by the first call that needs its devices (devices(), open()), not before, so that a process
/// that only looks which drivers there are may fork and use SYCL in the child. Once it is started, the process's
/// children can't use it: what they call here throws ForkError, and what they drop is left to the parent. Everything
/// made here should be dropped before the process ends, when SYCL's own end has its turn.
///
/// - **Devices** are kOneApi, by their place in `sycl::device::get_devices()`, as in DLPack. All kinds of USM memory
///   are of that type; MemoryKind tells them apart. info() has SYCL's backend: "opencl", "level_zero", "cuda", "hip".
/// - **Contexts**: a `sycl::queue` carries its own, so one Context of a device serves queues of every `sycl::context`
///   on that device and its sub-devices: memory is allocated in the queue's, and freed in the one that it was allocated
///   in. make_queue() takes the device's default context, the one that dpctl and what is built on it use, or that which
///   open() was given and has copied.
/// - **Queues** are `sycl::queue*`. Equal queues have one native handle as long as anybody holds one, so Queue's ==
///   is SYCL's. wrap_queue() copies the queue: it needs no owner, and the handle is ours. Queues of others may be
///   out-of-order: what is put on them here comes after all that they hold, and order_after() waits there in the
///   calling thread. What others put on such a queue later may still overtake it while SYCL holds back what came
///   before; who goes on with the memory by another library waits for the event first. Dropped queues live on until 64
///   more are: the CPU's run time can hang where a queue ends together with its work. To give a queue away as a
///   `sycl::queue*`, hold the Queue for as long as the pointer is used.
/// - **Events** are `sycl::event*`, as `sync_event` of the Arrow C Device data interface is. Work that failed makes the
///   events fail on which SYCL reports it: SystemError with SYCL's code.
/// - **Memory**: dropping it may wait until the device is idle. Context::free() calls nothing of SYCL's, so that a host
///   task may drop what it was the last to hold: a later verb of the context notes where the queue stands, and one
///   after that gives the memory back. A copy runs in the queue's context: memory of kind kDevice of another context is
///   refused as unsupported, and goes by way of the host; kHost and kShared memory of another context is host memory to
///   the queue. describe() knows memory of the device's default context, of the context that was opened, and of the
///   contexts of queues that anybody holds; its PointerInfo::context is valid while one of those is there. Where an
///   allocation starts and ends is known for those made here. adopt() refuses memory that is of none of these contexts.
/// - **Memory handles**: none. SYCL shares no memory between processes.
/// - **Errors**: dpctl says on standard error alone why a call failed: sometimes by itself, else with DPCTL_VERBOSITY=2
///   in the environment.
///
/// Thread-safe. All throw ForkError, as above, and InvalidArgumentError for null.
class CROSSDOCK_EXPORT SyclDriver : public Driver {
 public:
  /// As Context::wrap_queue(), for a queue of whatever device: Queue::device() says which. Of a queue that is held
  /// already it costs a look-up. Throws InvalidArgumentError for a device that SYCL doesn't list.
  virtual Queue wrap_queue(void* native, std::shared_ptr<void> owner = nullptr) = 0;
  /// A new queue. Without a context a sub-device gets what dpctl gives it: a context of its own on backends that can't
  /// use the parent's. Throws NotFoundError (no such device), InvalidArgumentError (the context hasn't the device).
  virtual Queue make_queue(const SyclQueueOptions& options) = 0;
  /// The in-order queue on which work with memory of a `sycl::context*` runs where nothing but the context is known: on
  /// the device that `pointer` belongs to, or the context's first device if null. The same one as long as anybody holds
  /// it. Throws InvalidArgumentError if the pointer isn't bound to the context.
  virtual Queue queue_in(void* native_context, const void* pointer = nullptr) = 0;

  /// Throws InvalidArgumentError for a queue that isn't of this driver, as the next does.
  virtual SyclQueueInfo queue_info(const Queue& queue) const = 0;
  /// True if memory of the one queue's context is the other's too.
  virtual bool same_context(const Queue& queue, const Queue& other) const = 0;

  /// A device cut into parts of `compute_units` each: `sycl::device*`, valid as long as they are held; none where SYCL
  /// can't cut it so.
  virtual std::vector<std::shared_ptr<void>> sub_devices(const Device& device, std::uint32_t compute_units) = 0;
};

/// The driver on the first of `candidates` that is dpctl's library; null if none is. `*tried`, where given, gets a line
/// for each that isn't: its name and the reason.
CROSSDOCK_EXPORT std::shared_ptr<SyclDriver> make_sycl_driver(const std::vector<std::string>& candidates,
                                                              std::vector<std::string>* tried = nullptr);

}  // namespace crossdock::device
