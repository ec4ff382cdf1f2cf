#include "state.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace crossdock::cuda_fake {

State& state() {
  static State& the_state = *new State;  // outlives the threads and destructors that still call at the process's end
  return the_state;
}

ContextStack& current_contexts() {
  thread_local constinit ContextStack stack;
  return stack;
}

void count(const char* function) {
  const std::uint64_t number = ++state().calls[function];
  if (state().holds_lock != nullptr && state().holds_lock() == 1) ++state().calls_with_lock[function];
  auto& failures = state().failures[function];
  if (const auto found = failures.find(number); found != failures.end()) throw Failure{found->second};
}

void need_start() {
  // CUDA in a child of the process that started it isn't started, and can't be.
  if (state().started_in != ::getpid()) throw Failure{kNotInitialized};
}

DoubleContext& need_context() {
  need_start();
  if (current_contexts().empty() || current_contexts().back() == nullptr) throw Failure{kInvalidContext};
  DoubleContext& context = context_of(current_contexts().back());
  if (context.broken != kSuccess) throw Failure{context.broken};
  return context;
}

DoubleContext& context_of(CUcontext handle) {
  need_start();
  for (DoubleDevice& device : state().devices) {
    if (device.primary.get() == handle && handle != nullptr) return *device.primary;
  }
  for (const auto& context : state().contexts) {
    if (context.get() == handle) return *context;
  }
  throw Failure{handle == nullptr ? kInvalidContext : kContextIsDestroyed};
}

DoubleStream& stream_of(CUstream handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= kCudaLegacyStream) {
    DoubleContext& context = need_context();
    if (context.legacy == nullptr) {
      context.legacy.reset(new DoubleStream{&context, context.backend->make_queue(), false});
    }
    return *context.legacy;
  }
  if (number == kCudaPerThreadStream) {
    DoubleContext& context = need_context();
    std::unique_ptr<DoubleStream>& stream = context.per_thread[std::this_thread::get_id()];
    if (stream == nullptr) stream.reset(new DoubleStream{&context, context.backend->make_queue(), true});
    return *stream;
  }
  need_start();
  const auto in = [handle](DoubleContext& context) {
    return context.streams.count(static_cast<DoubleStream*>(handle)) != 0;
  };
  for (DoubleDevice& device : state().devices) {
    if (device.primary != nullptr && in(*device.primary)) return *static_cast<DoubleStream*>(handle);
  }
  for (const auto& context : state().contexts) {
    if (in(*context)) return *static_cast<DoubleStream*>(handle);
  }
  throw Failure{kInvalidHandle};
}

DoubleEvent& event_of(CUevent handle) {
  need_start();
  const auto found = state().events.find(static_cast<DoubleEvent*>(handle));
  if (found == state().events.end()) throw Failure{kInvalidHandle};
  if ((*found)->context->broken != kSuccess) throw Failure{(*found)->context->broken};
  return **found;
}

void end_stream(DoubleStream* stream) {
  const std::unique_ptr<DoubleStream> ended(stream);
  const std::shared_ptr<device::Context>& backend = stream->context->backend;
  device::Event end = backend->record(stream->queue);
  state().ended.emplace_back(backend, std::move(end));
}

std::pair<const CUdeviceptr, Block>* block_of(CUdeviceptr pointer, std::uint64_t size) {
  auto& blocks = state().blocks;
  auto after = blocks.upper_bound(pointer);
  if (after != blocks.begin()) {
    auto& found = *std::prev(after);
    const std::uint64_t offset = pointer - found.first;
    if (offset < found.second.size && size <= found.second.size - offset) return &found;
  }
  // Registered memory has an address on the device that differs from the host's; both name it.
  for (auto& block : blocks) {
    const auto host = reinterpret_cast<CUdeviceptr>(block.second.host);
    if (block.second.source != Source::kRegistered || pointer < host) continue;
    const std::uint64_t offset = pointer - host;
    if (offset < block.second.size && size <= block.second.size - offset) return &block;
  }
  return nullptr;
}

void release_free_memory() {
  const auto release = [](DoublePool& pool) {
    const std::uint64_t more = pool.threshold > pool.used ? pool.threshold - pool.used : 0;
    pool.kept = std::min(pool.kept, more);
  };
  for (const DoubleDevice& device : state().devices) release(*device.default_pool);
  for (const auto& [handle, pool] : state().pools) release(*pool);
}

void order_default_streams(DoubleStream& stream) {
  DoubleContext& context = *stream.context;
  const auto after = [&context](DoubleStream& later, DoubleStream& earlier) {
    device::Event event = context.backend->record(earlier.queue);
    context.backend->order_after(later.queue, event);
  };
  if (&stream == context.legacy.get()) {
    for (DoubleStream* other : context.streams) {
      if (other->blocking) after(stream, *other);
    }
    for (const auto& [thread, other] : context.per_thread) after(stream, *other);
  } else if (stream.blocking && context.legacy != nullptr) {
    after(stream, *context.legacy);
  }
}

device::BufferRef bytes_at(CUdeviceptr pointer, std::uint64_t size) {
  if (const auto* found = block_of(pointer, size)) {
    const Block& block = found->second;
    if (block.source != Source::kRegistered) return block.buffer.ref().slice(pointer - found->first, size);
    const bool by_device = pointer >= found->first && pointer - found->first < block.size;
    if (by_device) pointer = reinterpret_cast<CUdeviceptr>(block.host) + (pointer - found->first);
  }
  return {.data = reinterpret_cast<void*>(pointer),
          .size = size,
          .device = {},
          .kind = device::MemoryKind::kHost,
          .read_only = false};
}

}  // namespace crossdock::cuda_fake
