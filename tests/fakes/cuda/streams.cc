// Streams and events.
#include "state.h"

using namespace crossdock::cuda_fake;
using crossdock::device::Event;

namespace {

/// Waits for an event outside the lock. Failed work breaks its context, as in CUDA.
CUresult wait_for(DoubleContext* context, const Event& event) noexcept {
  try {
    const std::shared_ptr<crossdock::device::Context> backend = context->backend;
    backend->wait(event);
    const std::lock_guard lock(state().mutex);
    release_free_memory();
    return kSuccess;
  } catch (...) {
    const std::lock_guard lock(state().mutex);
    if (context->broken == kSuccess) context->broken = kLaunchFailed;
    return context->broken;
  }
}

CUresult poll(DoubleContext* context, const Event& event) noexcept {
  try {
    return context->backend->query(event) ? kSuccess : kNotReady;
  } catch (...) {
    const std::lock_guard lock(state().mutex);
    if (context->broken == kSuccess) context->broken = kLaunchFailed;
    return context->broken;
  }
}

/// The end of a stream's work, and the context to wait for it in.
CUresult end_of(const char* function, CUstream handle, DoubleContext*& context, Event& done) {
  return call(function, [&] {
    DoubleStream& stream = stream_of(handle);
    if (stream.context->broken != kSuccess) throw Failure{stream.context->broken};
    order_default_streams(stream);
    context = stream.context;
    done = context->backend->record(stream.queue);
  });
}

/// Has the stream's thread call a function of the host, in the stream's order.
template <typename Function>
void run_in_order(DoubleStream& stream, Function function) {
  if (stream.context->broken != kSuccess) throw Failure{stream.context->broken};
  order_default_streams(stream);
  // Memory whose deleter is the function.
  static char nothing = 0;
  const std::shared_ptr<void> owner(&nothing, [function](void*) { function(); });
  const crossdock::device::BufferRef memory{
      .data = &nothing, .size = 0, .device = {}, .kind = crossdock::device::MemoryKind::kHost, .read_only = true};
  crossdock::device::Buffer buffer = stream.context->backend->adopt(memory, owner);
  stream.context->backend->free(std::move(buffer), stream.queue);
}

}  // namespace

CUDA_FAKE CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return call("cuStreamCreate", [&] {
    DoubleContext& context = need_context();
    if (flags > kStreamNonBlocking) throw Failure{kInvalidValue};
    auto stream = std::unique_ptr<DoubleStream>(
        new DoubleStream{&context, context.backend->make_queue(), (flags & kStreamNonBlocking) == 0});
    context.streams.insert(stream.get());
    *handle = stream.release();
  });
}

CUDA_FAKE CUresult cuStreamDestroy_v2(CUstream handle) {
  return call("cuStreamDestroy_v2", [&] {
    if (reinterpret_cast<std::uintptr_t>(handle) <= kCudaPerThreadStream) throw Failure{kInvalidHandle};
    DoubleStream& stream = stream_of(handle);
    stream.context->streams.erase(&stream);
    end_stream(&stream);
  });
}

CUDA_FAKE CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return call("cuStreamGetCtx", [&] {
    need_context();  // The documentation has it fail without one.
    *context = stream_of(handle).context;
  });
}

// No stream is ever captured as a graph.
CUDA_FAKE CUresult cuStreamIsCapturing(CUstream handle, int* status) {
  return call("cuStreamIsCapturing", [&] {
    stream_of(handle);
    *status = 0;
  });
}

CUDA_FAKE CUresult cuStreamQuery(CUstream handle) {
  DoubleContext* context = nullptr;
  Event done;
  const CUresult result = end_of("cuStreamQuery", handle, context, done);
  return result == kSuccess ? poll(context, done) : result;
}

CUDA_FAKE CUresult cuStreamSynchronize(CUstream handle) {
  DoubleContext* context = nullptr;
  Event done;
  const CUresult result = end_of("cuStreamSynchronize", handle, context, done);
  return result == kSuccess ? wait_for(context, done) : result;
}

CUDA_FAKE CUresult cuCtxSynchronize() {
  std::vector<Event> all;
  DoubleContext* context = nullptr;
  const CUresult result = call("cuCtxSynchronize", [&] {
    context = &need_context();
    std::vector<DoubleStream*> streams(context->streams.begin(), context->streams.end());
    if (context->legacy != nullptr) streams.push_back(context->legacy.get());
    for (const auto& [thread, stream] : context->per_thread) streams.push_back(stream.get());
    for (DoubleStream* stream : streams) {
      all.push_back(context->backend->record(stream->queue));
    }
  });
  if (result != kSuccess) return result;
  for (const Event& event : all) {
    if (const CUresult failed = wait_for(context, event)) return failed;
  }
  return kSuccess;
}

CUDA_FAKE CUresult cuLaunchHostFunc(CUstream handle, void (*function)(void*), void* argument) {
  return call("cuLaunchHostFunc", [&] { run_in_order(stream_of(handle), [=] { function(argument); }); });
}

CUDA_FAKE CUresult cuStreamAddCallback(CUstream handle, void (*function)(CUstream, CUresult, void*), void* argument,
                                       unsigned flags) {
  return call("cuStreamAddCallback", [&] {
    if (flags != 0) throw Failure{kInvalidValue};
    run_in_order(stream_of(handle), [=] { function(handle, kSuccess, argument); });
  });
}

CUDA_FAKE CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return call("cuStreamWaitEvent", [&] {
    DoubleStream& stream = stream_of(handle);
    if (stream.context->broken != kSuccess) throw Failure{stream.context->broken};
    DoubleEvent& its = event_of(event);
    order_default_streams(stream);
    try {
      stream.context->backend->order_after(stream.queue, its.event);
    } catch (const crossdock::Error&) {
      its.context->broken = kLaunchFailed;
      throw Failure{kLaunchFailed};
    }
  });
}

CUDA_FAKE CUresult cuEventCreate(CUevent* handle, unsigned) {
  return call("cuEventCreate", [&] {
    DoubleContext& context = need_context();
    auto event = std::unique_ptr<DoubleEvent>(new DoubleEvent{&context, {}});
    state().events.insert(event.get());
    *handle = event.release();
  });
}

CUDA_FAKE CUresult cuEventDestroy_v2(CUevent handle) {
  return call("cuEventDestroy_v2", [&] {
    need_start();
    const auto found = state().events.find(static_cast<DoubleEvent*>(handle));
    if (found == state().events.end()) throw Failure{kInvalidHandle};
    delete *found;
    state().events.erase(found);
  });
}

CUDA_FAKE CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call("cuEventRecord", [&] {
    DoubleStream& stream = stream_of(stream_handle);
    if (stream.context->broken != kSuccess) throw Failure{stream.context->broken};
    DoubleEvent& event = event_of(handle);
    if (event.context != stream.context) throw Failure{kInvalidHandle};
    order_default_streams(stream);
    event.event = stream.context->backend->record(stream.queue);
  });
}

CUDA_FAKE CUresult cuEventQuery(CUevent handle) {
  DoubleContext* context = nullptr;
  Event event;
  const CUresult result = call("cuEventQuery", [&] {
    DoubleEvent& its = event_of(handle);
    context = its.context;
    event = its.event;
  });
  return result == kSuccess ? poll(context, event) : result;
}

CUDA_FAKE CUresult cuEventSynchronize(CUevent handle) {
  DoubleContext* context = nullptr;
  Event event;
  const CUresult result = call("cuEventSynchronize", [&] {
    DoubleEvent& its = event_of(handle);
    context = its.context;
    event = its.event;
  });
  return result == kSuccess ? wait_for(context, event) : result;
}
