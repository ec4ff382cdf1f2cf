#include <type_traits>
#include <utility>

#include "crossdock/core/error.h"
#include "cuda_context.h"
#include "device/leak.h"

namespace crossdock::device::cuda {

namespace {

/// A stream or an event of our own. The destruction of a stream doesn't wait: CUDA finishes the stream's work before it
/// frees the stream.
template <typename Native, auto kDestroy>
struct Own {
  Native native = nullptr;
  std::shared_ptr<ContextHold> hold;

  ~Own() {
    if (native == nullptr || hold->library().in_child()) return;
    const Current current(*hold);
    if (current.result() == kSuccess) (hold->api().*kDestroy)(native);
  }
};
using OwnStream = Own<CUstream, &Api::stream_destroy>;
using OwnEvent = Own<CUevent, &Api::event_destroy>;

/// Returns what an event of record() owns, to whose first member its native() points.
const OwnEvent& own(const Event& event) noexcept { return *static_cast<const OwnEvent*>(event.native()); }
static_assert(std::is_standard_layout_v<OwnEvent>);

CUevent handle_of(const Event& event) noexcept { return *static_cast<CUevent*>(event.native()); }

/// Returns true for errors that say that the call itself was wrong, and not that earlier work failed.
bool of_the_call(CUresult result) noexcept {
  return result == kInvalidValue || result == kInvalidHandle || result == kInvalidContext || result == kOutOfMemory ||
         result == kDeinitialized || result == kNotInitialized;
}

}  // namespace

Queue CudaContext::make_queue() {
  const Entered entered(*this, "making a queue");
  auto own = std::make_shared<OwnStream>();
  own->hold = hold_;
  check(api().stream_create(&own->native, kStreamNonBlocking), "making a queue");
  void* native = own->native;
  return {device_, NativeQueue(native), std::move(own), native_context()};
}

Queue CudaContext::wrap_queue(NativeQueue wrapped, std::shared_ptr<void> owner) {
  void* const native = wrapped ? wrapped.get() : to_pointer(kCudaLegacyStream);
  const CUdeviceptr number = to_address(native);
  if (!is_default_cuda_stream(native)) {
    const Entered entered(*this, "looking at a stream");
    CUcontext its = nullptr;
    check(api().stream_get_ctx(native, &its), "asking a stream for its context");
    if (its != hold_->native()) {
      throw InvalidArgumentError("the cuda driver was given a stream of another context than that in which " +
                                 to_string(device_) + " is open");
    }
  }
  if (number == kCudaPerThreadStream) {
    return Queue::of_this_thread(device_, NativeQueue(native), std::move(owner), native_context());
  }
  return {device_, NativeQueue(native), std::move(owner), native_context()};
}

void CudaContext::order_after(const Queue& queue, const Event& event) {
  check_queue(queue);
  if (event.need() == nullptr) return;
  const Entered entered(*this, "ordering a queue after an event");
  check(api().stream_wait_event(queue.native(), handle_of(event), 0), "ordering a queue after an event");
}

Event CudaContext::wrap_event(NativeEvent native, std::shared_ptr<void> owner) { return {native, std::move(owner)}; }

Event CudaContext::record(const Queue& queue) {
  check_queue(queue);
  const Entered entered(*this, "recording an event");
  auto own = std::make_shared<OwnEvent>();
  own->hold = hold_;
  check(api().event_create(&own->native, kEventDisableTiming), "making an event");
  const CUresult result = api().event_record(own->native, queue.native());
  void* native = &own->native;  // other libraries get a pointer to the handle
  if (result == kSuccess) return {NativeEvent(native), std::move(own)};
  if (of_the_call(result)) library().fail(result, "recording an event");
  return Event::failed(std::make_shared<const Error>(library().error(result, "running the work before an event")));
}

void CudaContext::fail_event(Event event, CUresult result, const char* doing) const {
  if (of_the_call(result)) library().fail(result, doing);
  event.fail(std::make_shared<const Error>(library().error(result, "running the work before an event")));
  event.check();
}

bool CudaContext::query(const Event& event) {
  if (event.need() == nullptr) return true;
  const Entered entered(*this, "querying an event");
  const CUresult result = api().event_query(handle_of(event));
  if (result == kNotReady) return false;
  if (result == kSuccess) {
    deferred_->reclaim();
    return true;
  }
  fail_event(event, result, "querying an event");
  return true;
}

void CudaContext::wait(const Event& event) {
  if (event.need() == nullptr) return;
  const Entered entered(*this, "waiting for an event");
  const CUresult result = api().event_synchronize(handle_of(event));
  if (result == kSuccess) return deferred_->reclaim();
  fail_event(event, result, "waiting for an event");
}

DeferredFreeList::Watch CudaContext::watch(std::shared_ptr<CudaLibrary> library) {
  // The work of a context that was destroyed ended with it.
  return {
      .over =
          [](const Event& event) {
            const ContextHold& hold = *own(event).hold;
            if (!hold.alive()) return true;
            const CUresult result = hold.api().event_query(handle_of(event));
            return result != kNotReady && !of_the_call(result);
          },
      .wait =
          [](const Event& event) {
            const ContextHold& hold = *own(event).hold;
            if (!hold.alive()) return true;
            const Current current(hold.library(), hold.native());
            if (!of_the_call(hold.api().event_synchronize(handle_of(event)))) return true;
            return !of_the_call(hold.api().ctx_synchronize());
          },
      .in_child = [library = std::move(library)] { return library->in_child(); },
  };
}

bool CudaContext::idle(const Queue& queue) const noexcept {
  int capturing = 0;  // a query would end the capture of a graph
  return api().stream_is_capturing(queue.native(), &capturing) == kSuccess && capturing == 0 &&
         api().stream_query(queue.native()) == kSuccess;
}

void CudaContext::defer_free(std::shared_ptr<void> owner, const Queue& queue) {
  Event done;
  try {
    done = record(queue);
  } catch (const std::exception&) {  // no memory for an event
  }
  if (done.native() == nullptr) {
    // Or the stream accepts no more work: it is broken, destroyed, or not of this context. Later calls report that.
    CUresult result = api().stream_synchronize(queue.native());
    if (of_the_call(result)) result = api().ctx_synchronize();
    if (of_the_call(result)) leak(std::move(owner));
    return;
  }
  deferred_->add(std::move(owner), std::move(done), queue);
}

}  // namespace crossdock::device::cuda
