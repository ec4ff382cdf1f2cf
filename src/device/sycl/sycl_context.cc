#include "sycl_context.h"

#include <utility>

#include "async_error.h"
#include "crossdock/core/error.h"
#include "device/internal/driver_checks.h"
#include "device/leak.h"
#include "event_wait.h"

namespace crossdock::device::sycl {

namespace {

EventRef ref_of(const Event& event) noexcept { return static_cast<EventRef>(event.native()); }

}  // namespace

SyclContext::SyclContext(std::shared_ptr<SyclLibrary> library, int number, std::shared_ptr<OpaqueContext> context,
                         Owned<OpaqueDevice> native_device)
    : library_(std::move(library)),
      device_{.type = DeviceType::kOneApi, .id = number},
      device_count_(static_cast<std::int64_t>(library_->devices().size())),
      default_context_(library_->default_context(number)),
      context_(context != nullptr ? std::move(context) : default_context_),
      native_device_(std::move(native_device)),
      deferred_(watch(library_)) {}

SyclContext::~SyclContext() {
  if (library_->in_child()) return;
  flush_frees(Marks::kOfAllQueues);
  for (Freed& one : freed_) leak(std::move(one.owner));  // their queues take no marks
}

const SyclQueue& SyclContext::look_up(const Queue& queue) const {
  library_->check_fork();
  checks::queue("sycl", queue, {device_, queue.native_context()});
  return library_->queues().find(queue);
}

Queue SyclContext::make_queue() {
  library_->check_fork();
  const auto made = library_->check(
      api().queue_create(context_.get(), native_device_.get(), note_async_error, kInOrder), "making a queue");
  return library_->queues().wrap(library_, made.get())->queue();
}

Queue SyclContext::wrap_queue(NativeQueue native, std::shared_ptr<void> owner) {
  library_->check_fork();
  Queue queue = library_->queues().wrap_theirs(library_, native.get())->queue(std::move(owner));
  checks::queue("sycl", queue, {device_, queue.native_context()});
  return queue;
}

void SyclContext::order_after(const Queue& queue, const Event& event) {
  const SyclQueue& on = look_up(queue);
  flush_frees(Marks::kWithoutWaiting);
  auto* before = static_cast<EventRef>(event.need());
  // A query of the event costs less than a barrier.
  if (before == nullptr || api().event_status(before) == kStatusComplete) return;
  // A barrier in an out-of-order queue holds no work back as long as the run time hasn't submitted the work that the
  // barrier waits for (for example oneMKL's host tasks). Only the host can wait for it.
  if (!on.in_order) return wait_for(event);
  library_->check(api().queue_barrier_after(on.native, &before, 1), "ordering a queue after an event");
}

Event SyclContext::wrap_event(NativeEvent native, std::shared_ptr<void> owner) { return {native, std::move(owner)}; }

Event SyclContext::record(const Queue& queue) {
  const SyclQueue& on = look_up(queue);
  flush_frees(Marks::kWithoutWaiting, &on);
  return mark(on);
}

void SyclContext::wait_if_out_of_order(const SyclQueue& on) const {
  if (!on.in_order) api().queue_wait(on.native);
}

Event SyclContext::mark(const SyclQueue& on) const {
  std::shared_ptr<void> event = library_->share(library_->check(api().queue_barrier(on.native), "recording an event"));
  wait_if_out_of_order(on);  // after the barrier, whose event has a failure of the work before it
  void* native = event.get();
  return {NativeEvent(native), std::move(event)};
}

std::shared_ptr<const Error> SyclContext::finish(const Api& api, EventRef event) {
  take_async_error();  // drops an older error, which is of other work
  const int status = wait_until_over(api, event);
  const int code = take_async_error();
  if (code == 0 && status == kStatusComplete) return nullptr;
  const std::string what = code != 0 ? "SYCL reported error " + std::to_string(code)
                                     : "SYCL couldn't wait (event status " + std::to_string(status) + ")";
  return std::make_shared<const SystemError>("the sycl driver: " + what + " while running the work before an event");
}

bool SyclContext::query(const Event& event) {
  if (event.need() == nullptr) return true;
  library_->check_fork();
  flush_frees(Marks::kWithoutWaiting);
  const int status = api().event_status(ref_of(event));
  // dpctl returns "unknown" if the query fails: then the work has failed. A wait, which is short then, tells the error.
  if (status != kStatusComplete && status != kStatusUnknown) return false;
  if (status == kStatusUnknown) {
    if (auto failure = finish(api(), ref_of(event))) Event(event).fail(std::move(failure));
    event.check();
  }
  deferred_.reclaim();
  return true;
}

void SyclContext::wait_for(const Event& event) {
  if (auto failure = finish(api(), ref_of(event))) Event(event).fail(std::move(failure));
  event.check();
}

void SyclContext::wait(const Event& event) {
  if (event.need() == nullptr) return;
  library_->check_fork();
  flush_frees(Marks::kWithoutWaiting);
  wait_for(event);
  flush_frees(Marks::kOfAllQueues);
  deferred_.reclaim();
}

DeferredFreeList::Watch SyclContext::watch(const std::shared_ptr<SyclLibrary>& library) {
  const auto wait = [library](const Event& event) {
    const int status = wait_until_over(library->api(), ref_of(event));
    return status == kStatusComplete || status == kStatusUnknown;
  };
  return {
      .over =
          [library, wait](const Event& event) {
            const int status = library->api().event_status(ref_of(event));
            // The status of failed work is "unknown" too. The wait for such work is short.
            return status == kStatusUnknown ? wait(event) : status == kStatusComplete;
          },
      .wait = wait,
      .in_child = [library] { return library->in_child(); },
  };
}

}  // namespace crossdock::device::sycl
