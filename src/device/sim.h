#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

struct SimOptions {
  std::uint32_t devices = 1;
  /// The shortest time between putting work on its queue and its start.
  std::chrono::nanoseconds delay{0};
  /// Bytes that one device has. Allocated bytes take real memory.
  std::uint64_t memory = std::uint64_t{8} << 30;
};

/// The verbs of Context, and Driver::open(). They are counted, and can be made to fail.
enum class SimVerb : std::uint8_t {
  kOpen,
  kAllocate,
  kAdopt,
  kFree,
  kCopy,
  kDescribe,
  kExportMemory,
  kImportMemory,
  kMakeQueue,
  kWrapQueue,
  kOrderAfter,
  kWrapEvent,
  kRecord,
  kQuery,
  kWait,
};
inline constexpr std::size_t kSimVerbs = 15;

/// Returns the name of a verb, as in "allocate" or "order_after".
std::string_view sim_verb_name(SimVerb verb) noexcept;
std::optional<SimVerb> sim_verb_of(std::string_view name) noexcept;

/// Counts the calls of a simulated driver since it was made or reset. Failed calls are counted too.
struct SimCounters {
  std::array<std::uint64_t, kSimVerbs> calls{};
  std::uint64_t bytes_allocated = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t live_allocations = 0;  ///< Now; a reset doesn't change them.
  std::uint64_t live_bytes = 0;        ///< Now.

  std::uint64_t of(SimVerb verb) const noexcept { return calls[static_cast<std::size_t>(verb)]; }
  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t calls_of_one : calls) sum += calls_of_one;
    return sum;
  }
};

/// An asynchronous device that needs no hardware, for tests: it finds every missing order that would be a race on a
/// GPU.
///
/// Devices are EXT_DEV (12), numbered from 0. Each queue works on a thread of its own, from its first work on. The host
/// may not read or write device memory at its addresses: an access is SIGSEGV, a system call on it fails with EFAULT,
/// also after the memory was freed. The host may access pinned (kHost) and managed (kShared) memory, with an exception:
/// from the moment that work is put on a queue until the host has waited for that work, or query() has returned that it
/// is done, the host may not touch the memory that the work writes, nor write the memory that it reads. This holds for
/// whole pages; parts of pages are treated like ordinary host memory. Ordinary host memory that a copy writes is filled
/// with kSimPattern when the copy is put on the queue (a long range in places), so that a forgotten wait shows wrong
/// values.
///
/// Vector clocks track the order between queues. If work touches memory after another queue's work on it, and neither
/// an event nor a wait of the host orders it after that work, it isn't done and fails: the next event on its queue
/// carries an error that names both queues. The same holds for memory that is freed or dropped while work on it is
/// pending. Accesses are compared byte by byte: different queues may work on parts of one allocation.
///
/// The events recorded after failed work carry its failure, until the failure has been thrown to a caller: events
/// recorded later don't carry it. Queues that were ordered after those events get the failure too. The queue itself
/// goes on working.
///
/// An event's native handle (`sync_event`) is a `struct crossdock_sim_event*` (crossdock/device/sim_event.h); a queue's
/// native handle is opaque. In a process forked from the one that made the driver, every call throws ForkError, and
/// dropping an object that the parent made does nothing. Thread-safe.
class SimDriver : public Driver {
 public:
  /// Sets the number of devices: from now on, devices 0 to `count` - 1 exist. With 0, memory kept for reuse is freed.
  /// Contexts of a device that doesn't exist any more start no new work (NotFoundError). Work that was started before
  /// ends normally.
  virtual void set_devices(std::uint32_t count) = 0;
  /// Sets SimOptions::delay for work put on a queue from now on.
  virtual void set_delay(std::chrono::nanoseconds delay) = 0;
  /// Sets the bytes that one device has, from now on.
  virtual void set_memory(std::uint64_t bytes) = 0;

  /// Makes one call of `verb` throw `error`, after `after` more calls of it. Several failures may be pending.
  virtual void fail_next(SimVerb verb, std::uint64_t after, const Error& error) = 0;
  /// Makes one copy fail with `error` when it runs, after `after` more copies were put on a queue. Counts the copies of
  /// `queue` alone, or of any queue if it is null.
  virtual void fail_work(std::uint64_t after, const Error& error, const Queue* queue = nullptr) = 0;

  virtual SimCounters counters() const = 0;
  /// Returns the texts of the missing orders that were found so far, oldest first, whether they were thrown or not. At
  /// most 100.
  virtual std::vector<std::string> faults() const = 0;
  /// Forgets the faults, for tests that cause them on purpose.
  virtual void forget_faults() = 0;
  /// Sets the counters to 0. Forgets faults, failures that haven't happened yet, and accesses to host memory.
  virtual void reset() = 0;
};

/// The byte that fills memory whose content must not be read yet: new allocations, targets of pending copies.
inline constexpr std::byte kSimPattern{0xA5};

/// Makes a simulated driver. It has no thread and no mapping until it is used.
std::shared_ptr<SimDriver> make_sim_driver(const SimOptions& options);

}  // namespace crossdock::device
