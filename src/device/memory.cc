#include "crossdock/device/memory.h"

#include <cstdint>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::device {

void Memory::check_reach() const {
  if (!out_of_reach()) return;
  throw ExportError("the array's work is on a stream of " + to_string(queue->device()) + " (" +
                    std::to_string(reinterpret_cast<std::uintptr_t>(queue->native())) +
                    "), which can't be waited for because no driver for it was found: export it by a protocol that "
                    "carries the stream, or order the work yourself and use .unsynchronized()");
}

void Memory::fail_other_context(const char* protocol) const {
  throw ExportError("a device in " + std::string(protocol) + " means its usual context, but this memory of " +
                    to_string(device) +
                    " is in another context; copy it to a queue of the usual "
                    "context (.copy_to()), or export it by a protocol that tells the context: "
                    "__sycl_usm_array_interface__ or __cuda_array_interface__");
}

Event Memory::pending() const {
  event.check();
  check_reach();
  if (!queue || !queue->usable_here()) return event;
  if (!queue_covers_event()) context->order_after(*queue, event);
  Event end = context->record(*queue);
  end.check();
  return end;
}

void Memory::set_queue(std::shared_ptr<Context> its, Queue on, Event end) {
  event = on.thread_bound() && end.native() == nullptr ? its->record(on) : std::move(end);
  recorded = event;
  queue = std::move(on);
  context = std::move(its);
}

}  // namespace crossdock::device
