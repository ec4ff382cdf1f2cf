#pragma once

#include <memory>
#include <optional>

#include "crossdock/core/error.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"

namespace crossdock::device {

class Context;

/// A point in a queue's work: a native handle, its owner, and the failure that it may carry. Copied freely: copies are
/// the same event, and the native one is destroyed with the last of them. Safe to share between threads.
///
/// A default-made event is complete and carries nothing: what the host driver hands out, and what a null `sync_event`
/// of the Arrow C Device data interface means.
class CROSSDOCK_EXPORT Event {
 public:
  Event() noexcept = default;
  /// `native`: a pointer as the Arrow interface has it for the device's type (`cudaEvent_t*`, `sycl::event*`, …).
  /// `owner` keeps it alive, and destroys it with its last copy; null if somebody else sees to that.
  Event(void* native, std::shared_ptr<void> owner);
  /// The end of the work that is on `queue`, a queue of `context`, when somebody first needs the event: for producers
  /// that name a queue but no event. It is recorded then, by native(); where nobody needs it, as nobody does who works
  /// on the same queue, nothing is put there.
  static Event end_of(std::shared_ptr<Context> context, Queue queue);
  /// An event of work that failed before it came to have a native one.
  static Event failed(std::shared_ptr<const Error> failure);

  /// The native handle; null if there is none. Records what end_of() gave; where that fails, the event carries the
  /// failure.
  void* native() const noexcept;
  /// The same, for who can't go on without it: throws the failure, that of recording too.
  void* need() const;
  /// True if there is no native handle, and none is to come: nothing has to be waited for, unless the event failed.
  bool empty() const noexcept;
  /// The queue whose end the event will stand for, as long as nobody has needed it; nothing otherwise.
  std::optional<Queue> awaits() const noexcept;

  /// What went wrong in the work before this event, as far as it is known; null if nothing did. Who waits for the
  /// event, or orders a queue after it, gets it thrown.
  std::shared_ptr<const Error> failure() const;
  /// For drivers: this event and its copies carry `failure` from now on. The first one stays. Not for a default-made
  /// event.
  void fail(std::shared_ptr<const Error> failure);
  /// Throws the failure, if there is one, as the class of its code.
  void check() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace crossdock::device
