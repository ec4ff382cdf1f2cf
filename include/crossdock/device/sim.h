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
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

struct SimOptions {
  std::uint32_t devices = 1;
  /// How long after it was put on its queue work starts at the earliest.
  std::chrono::nanoseconds delay{0};
  /// Bytes that one device has; real memory stands behind those that are allocated.
  std::uint64_t memory = std::uint64_t{8} << 30;
};

/// The verbs of Context, and Driver::open(), to be counted and to be made to fail.
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

/// "allocate", "order_after".
CROSSDOCK_EXPORT std::string_view sim_verb_name(SimVerb verb) noexcept;
CROSSDOCK_EXPORT std::optional<SimVerb> sim_verb_of(std::string_view name) noexcept;

/// What was asked of a simulated driver since it was made, or reset. Calls that failed are counted too.
struct SimCounters {
  std::array<std::uint64_t, kSimVerbs> calls{};
  std::uint64_t bytes_allocated = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t live_allocations = 0;  ///< Now; a reset leaves them.
  std::uint64_t live_bytes = 0;        ///< Now.

  std::uint64_t of(SimVerb verb) const noexcept { return calls[static_cast<std::size_t>(verb)]; }
  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t calls_of_one : calls) sum += calls_of_one;
    return sum;
  }
};

/// An asynchronous device that needs no hardware, for tests: what would be a race on a GPU is found every time.
///
/// Devices are EXT_DEV (12), numbered from 0. Each queue works on a thread of its own, from its first work on. Device
/// memory lies at addresses where the host may read and write nothing: an access is SIGSEGV, a system call on it
/// EFAULT, also after it was freed. Pinned (kHost) and managed (kShared) memory is the host's too, but from the moment
/// that work is put on a queue until the host has waited for that work, or has been told by query() that it is done,
/// the host may not touch what the work writes, nor write what it reads (whole pages; parts of pages as for ordinary
/// memory). Ordinary host memory that a copy writes is filled with kSimPattern when the copy is put on the queue (long
/// ones in places), so that a forgotten wait shows wrong values.
///
/// Order between queues is kept with vector clocks. Work that touches memory after another queue's work on it, and
/// isn't ordered after that by an event or a wait of the host, isn't done, and fails: the next event on its queue
/// carries an error that names both queues. So it is with memory that is freed or dropped while work on it is pending.
/// Memory is told apart by bytes: queues may work on parts of one allocation.
///
/// A failure is carried by the events recorded after the work that failed, until it has been thrown at somebody: those
/// recorded later carry it no more. It goes on to the queues that were ordered after those events. The queue itself
/// goes on.
///
/// `sync_event`, an event's native handle, is a `struct crossdock_sim_event*` (crossdock/device/sim_event.h); a queue's
/// is opaque. In a process forked from the one that made the driver everything throws ForkError, and dropping what the
/// parent made does nothing. Thread-safe.
class CROSSDOCK_EXPORT SimDriver : public Driver {
 public:
  /// Devices 0 to `count` - 1 exist from now on. With 0, memory kept for reuse is freed. Contexts of a device that
  /// has gone start nothing new (NotFoundError); what is under way ends well.
  virtual void set_devices(std::uint32_t count) = 0;
  /// For work put on a queue from now on.
  virtual void set_delay(std::chrono::nanoseconds delay) = 0;
  /// Bytes that one device has, from now on.
  virtual void set_memory(std::uint64_t bytes) = 0;

  /// Makes a call of `verb` throw `error`: the next one after `after` more. Several may be pending.
  virtual void fail_next(SimVerb verb, std::uint64_t after, const Error& error) = 0;
  /// Makes a copy fail when it runs: the next one that is put on a queue after `after` more. Of any queue, or of
  /// `queue` alone.
  virtual void fail_work(std::uint64_t after, const Error& error, const Queue* queue = nullptr) = 0;

  virtual SimCounters counters() const = 0;
  /// Texts of the forgotten orders found so far, oldest first, whether anybody saw them thrown or not; 100 at most.
  virtual std::vector<std::string> faults() const = 0;
  /// Forgets them: they were meant.
  virtual void forget_faults() = 0;
  /// Sets the counters to 0, and forgets faults, failures that haven't happened yet, and what was done to the host's
  /// memory.
  virtual void reset() = 0;
};

/// What is known to be done where a simulated queue releases memory on the calling thread; null elsewhere. For owners
/// that can't be destroyed on this thread, for example because they need the GIL: pass it on with the owner.
CROSSDOCK_EXPORT std::shared_ptr<const void> sim_release_clock() noexcept;

/// While it lives, what the calling thread releases is released as it was on the queue's thread: after the work that
/// was done there.
class CROSSDOCK_EXPORT SimLettingGo {
 public:
  /// `of` is what sim_release_clock() gave; null changes nothing.
  explicit SimLettingGo(std::shared_ptr<const void> of) noexcept;
  SimLettingGo(const SimLettingGo&) = delete;
  SimLettingGo& operator=(const SimLettingGo&) = delete;
  ~SimLettingGo();

 private:
  std::shared_ptr<const void> of_;
  const void* before_;
};

/// The byte that fills memory whose content nobody should look at: new allocations, targets of pending copies.
inline constexpr std::byte kSimPattern{0xA5};

/// Costs nothing until it is used: no thread and no mapping.
CROSSDOCK_EXPORT std::shared_ptr<SimDriver> make_sim_driver(const SimOptions& options);

}  // namespace crossdock::device
