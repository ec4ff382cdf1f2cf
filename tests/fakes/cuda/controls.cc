#include <cstdio>

#include "backend.h"
#include "cuda_fake.h"
#include "state.h"

using namespace crossdock::cuda_fake;

namespace {

/// A context that is broken says so at once, while work on its other streams goes on: that must not fail anew later.
void wait_for_all_work() {
  std::vector<std::pair<std::shared_ptr<crossdock::device::Context>, crossdock::device::Event>> ends;
  {
    const std::lock_guard lock(state().mutex);
    ends.swap(state().ended);
    const auto add = [&](const DoubleContext& context) {
      const auto end_of = [&](const DoubleStream& stream) {
        ends.emplace_back(context.backend, context.backend->record(stream.queue));
      };
      for (const DoubleStream* stream : context.streams) end_of(*stream);
      if (context.legacy != nullptr) end_of(*context.legacy);
      for (const auto& [thread, stream] : context.per_thread) end_of(*stream);
    };
    for (const DoubleDevice& device : state().devices) {
      if (device.primary != nullptr) add(*device.primary);
    }
    for (const auto& context : state().contexts) add(*context);
  }
  for (auto& [backend, end] : ends) {
    try {
      backend->wait(end);
    } catch (const crossdock::Error&) {
      // Whoever made that work fail has seen so, or didn't want to.
    }
  }
}

}  // namespace

CUDA_FAKE void crossdockCudaFakeReset() {
  wait_for_all_work();
  const std::lock_guard lock(state().mutex);
  State& s = state();
  s.version = State().version;
  s.attributes.clear();
  s.hidden.clear();
  s.calls.clear();
  s.holds_lock = nullptr;
  s.calls_with_lock.clear();
  s.failures.clear();
  s.mapped = 0;
  for (DoubleDevice& device : s.devices) {
    if (device.primary != nullptr) device.primary->broken = kSuccess;
  }
  for (const auto& context : s.contexts) context->broken = kSuccess;
  reset_backend();
}

CUDA_FAKE void crossdockCudaFakeForget() {
  std::map<CUdeviceptr, Block> blocks;  // dropped outside the lock
  const std::lock_guard lock(state().mutex);
  blocks.swap(state().blocks);
  for (DoubleEvent* event : state().events) delete event;
  state().events.clear();
  const auto end_streams = [](DoubleContext& context) {
    for (DoubleStream* stream : context.streams) end_stream(stream);
    context.streams.clear();
  };
  for (const DoubleDevice& device : state().devices) {
    if (device.primary != nullptr) end_streams(*device.primary);
  }
  for (const auto& context : state().contexts) end_streams(*context);
}

CUDA_FAKE void crossdockCudaFakeFail(const char* function, int nth, int result) {
  const std::lock_guard lock(state().mutex);
  if (nth == 0) {
    state().failures.erase(function);
  } else {
    state().failures[function][state().calls[function] + static_cast<std::uint64_t>(nth)] = result;
  }
}

CUDA_FAKE uint64_t crossdockCudaFakeCalls(const char* function) {
  const std::lock_guard lock(state().mutex);
  return state().calls[function];
}

CUDA_FAKE void crossdockCudaFakeWatchLock(int (*holds)()) {
  const std::lock_guard lock(state().mutex);
  state().holds_lock = holds;
}

CUDA_FAKE uint64_t crossdockCudaFakeCallsWithLock(const char* function) {
  const std::lock_guard lock(state().mutex);
  return state().calls_with_lock[function];
}

CUDA_FAKE void crossdockCudaFakeLive(CrossdockCudaFakeLive* live) {
  const std::lock_guard lock(state().mutex);
  *live = {};
  live->allocations = state().blocks.size();
  live->events = state().events.size();
  live->contexts = state().contexts.size();
  for (const auto& context : state().contexts) live->streams += context->streams.size();
  for (const DoubleDevice& device : state().devices) {
    live->contexts += static_cast<std::uint64_t>(device.retained);
    if (device.primary != nullptr) live->streams += device.primary->streams.size();
  }
}

CUDA_FAKE uint64_t crossdockCudaFakePools() {
  const std::lock_guard lock(state().mutex);
  return state().pools.size();
}

CUDA_FAKE uint64_t crossdockCudaFakeMapped() {
  const std::lock_guard lock(state().mutex);
  return state().mapped;
}

CUDA_FAKE void crossdockCudaFakeSetDelay(uint64_t microseconds) { set_backend_delay(microseconds); }

CUDA_FAKE void crossdockCudaFakeSetVersion(int version) {
  const std::lock_guard lock(state().mutex);
  state().version = version;
}

CUDA_FAKE void crossdockCudaFakeSetAttribute(int attribute, int value) {
  const std::lock_guard lock(state().mutex);
  state().attributes[attribute] = value;
}

CUDA_FAKE void crossdockCudaFakeHide(const char* function) {
  const std::lock_guard lock(state().mutex);
  state().hidden.insert(function);
}

CUDA_FAKE void crossdockCudaFakeBreak(void* context, int result) {
  const std::lock_guard lock(state().mutex);
  static_cast<DoubleContext*>(context)->broken = result;
}

CUDA_FAKE void crossdockCudaFakeFailWork() { fail_backend_work(); }

CUDA_FAKE uint64_t crossdockCudaFakeFaults(char* text, uint64_t size) {
  const std::vector<std::string> faults = backend_faults();
  if (size > 0) std::snprintf(text, size, "%s", faults.empty() ? "" : faults.back().c_str());
  return faults.size();
}
