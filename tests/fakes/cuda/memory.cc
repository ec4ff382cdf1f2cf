// Memory, copies, and what pointers point to.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "state.h"

using namespace crossdock::cuda_fake;
using crossdock::device::BufferRef;
using crossdock::device::Event;
using crossdock::device::MemoryKind;
using crossdock::device::Sharing;

namespace {

CUdeviceptr address(const void* pointer) noexcept { return reinterpret_cast<CUdeviceptr>(pointer); }

CUdeviceptr allocate(DoubleContext& context, const crossdock::device::Queue& queue, std::size_t size, Source source) {
  if (size == 0) throw Failure{kInvalidValue};
  const MemoryKind kind = source == Source::kPinned    ? MemoryKind::kHost
                          : source == Source::kManaged ? MemoryKind::kShared
                                                       : MemoryKind::kDevice;
  const Sharing sharing = source == Source::kAlloc ? Sharing::kExportable : Sharing::kPrivate;
  Block block;
  block.source = source;
  block.context = &context;
  block.size = size;
  block.buffer = context.backend->allocate(size, kind, sharing, queue);
  if (kind != MemoryKind::kDevice) block.host = block.buffer.data();
  const CUdeviceptr pointer = address(block.buffer.data());
  state().blocks[pointer] = std::move(block);
  return pointer;
}

CUdeviceptr allocate_from(const std::shared_ptr<DoublePool>& pool, std::size_t size, DoubleStream& stream) {
  order_default_streams(stream);
  const CUdeviceptr pointer = allocate(*stream.context, stream.queue, size, Source::kPool);
  state().blocks[pointer].pool = pool;
  const std::uint64_t reused = std::min<std::uint64_t>(pool->kept, size);
  pool->kept -= reused;
  pool->used += size;
  state().mapped += size - reused;
  return pointer;
}

/// Memory of a pool that is free again stays in it, until the next synchronization.
void put_back(const Block& block) {
  if (block.pool == nullptr) return;
  block.pool->used -= block.size;
  block.pool->kept += block.size;
}

std::shared_ptr<DoublePool> pool_of(CUmemoryPool handle) {
  need_start();
  const auto found = state().pools.find(handle);
  if (found == state().pools.end()) throw Failure{kInvalidValue};
  return found->second;
}

/// Memory that is there for all streams when the call returns.
CUdeviceptr allocate_now(std::size_t size, Source source) {
  DoubleContext& context = need_context();
  const crossdock::device::Queue idle = context.backend->make_queue();
  const CUdeviceptr pointer = allocate(context, idle, size, source);
  Event allocated = context.backend->record(idle);
  context.backend->wait(allocated);  // at once: nothing else is on that queue
  return pointer;
}

/// Takes a block out of the table; it must begin at `pointer`.
Block take(CUdeviceptr pointer) {
  const auto found = state().blocks.find(pointer);
  if (found == state().blocks.end()) throw Failure{kInvalidValue};
  Block block = std::move(found->second);
  state().blocks.erase(found);
  return block;
}

/// A stream of the current context; CUDA refuses streams of other contexts.
DoubleStream& own_stream(CUstream handle) {
  DoubleContext& context = need_context();
  DoubleStream& stream = stream_of(handle);
  if (stream.context != &context) throw Failure{kInvalidHandle};
  return stream;
}

void copy_between(CUdeviceptr to, CUdeviceptr from, std::size_t size, DoubleStream& stream) {
  if (size == 0) return;
  order_default_streams(stream);
  stream.context->backend->copy(bytes_at(to, size), bytes_at(from, size), stream.queue);
}

/// Copies within one context: its streams don't reach the device memory of others. Memory of pools is the device's.
void copy(CUdeviceptr to, CUdeviceptr from, std::size_t size, DoubleStream& stream) {
  for (const CUdeviceptr pointer : {to, from}) {
    const auto* found = block_of(pointer, size);
    if (found == nullptr || found->second.source != Source::kAlloc) continue;
    if (found->second.context != stream.context) throw Failure{kInvalidValue};
  }
  copy_between(to, from, size, stream);
}

/// Copies, and waits outside the lock.
CUresult copy_and_wait(const char* function, CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  Event done;
  std::shared_ptr<crossdock::device::Context> backend;
  const CUresult result = call(function, [&] {
    DoubleStream& stream = own_stream(nullptr);
    copy(to, from, size, stream);
    backend = stream.context->backend;
    done = backend->record(stream.queue);
  });
  if (result != kSuccess) return result;
  try {
    backend->wait(done);
    return kSuccess;
  } catch (const crossdock::Error&) {
    return kLaunchFailed;
  }
}

/// One attribute of a pointer; false for memory that isn't known.
bool attribute_of(CUdeviceptr pointer, int attribute, void* value) {
  const auto* found = block_of(pointer, 0);
  const auto put = [value](auto what) { std::memcpy(value, &what, sizeof what); };
  const Block* block = found != nullptr ? &found->second : nullptr;
  // Where the pointer lies in its block, by whichever of its two addresses.
  std::uint64_t offset = 0;
  if (block != nullptr) {
    const bool by_device = pointer >= found->first && pointer - found->first < block->size;
    offset = pointer - (by_device ? found->first : address(block->host));
  }
  switch (attribute) {
    // Memory of pools belongs to the device, not to a context.
    case kPointerContext:
      put(CUcontext(block != nullptr && block->source != Source::kPool ? block->context : nullptr));
      break;
    case kPointerMemoryType: {
      const bool host = block != nullptr && (block->source == Source::kPinned || block->source == Source::kRegistered);
      put(block == nullptr ? 0u : host ? kTypeHost : kTypeDevice);
      break;
    }
    case kPointerDevicePointer: put(block != nullptr ? found->first + offset : CUdeviceptr{0}); break;
    case kPointerHostPointer:
      put(block != nullptr && block->host != nullptr ? static_cast<char*>(block->host) + offset
                                                     : static_cast<char*>(nullptr));
      break;
    case kPointerIsManaged: put(block != nullptr && block->source == Source::kManaged ? 1u : 0u); break;
    case kPointerDeviceOrdinal: put(block != nullptr ? block->context->ordinal : -2); break;
    case kPointerRangeStart: put(block != nullptr ? found->first : CUdeviceptr{0}); break;
    case kPointerIpcCapable: put(block != nullptr && block->source == Source::kAlloc ? 1 : 0); break;
    case kPointerHandleTypes: put(std::uint64_t{0}); break;  // of memory that is mapped apart from its allocation
    case kPointerRangeSize: put(block != nullptr ? std::size_t{block->size} : std::size_t{0}); break;
    default: throw Failure{kInvalidValue};
  }
  return block != nullptr;
}

}  // namespace

CUDA_FAKE CUresult cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t size) {
  return call("cuMemAlloc_v2", [&] { *pointer = allocate_now(size, Source::kAlloc); });
}

CUDA_FAKE CUresult cuMemAllocAsync(CUdeviceptr* pointer, std::size_t size, CUstream handle) {
  return call("cuMemAllocAsync", [&] {
    DoubleStream& stream = own_stream(handle);
    const auto ordinal = static_cast<std::size_t>(stream.context->ordinal);
    *pointer = allocate_from(state().devices[ordinal].default_pool, size, stream);
  });
}

CUDA_FAKE CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, std::size_t size, CUmemoryPool handle,
                                           CUstream stream) {
  return call("cuMemAllocFromPoolAsync", [&] {
    const std::shared_ptr<DoublePool> pool = pool_of(handle);
    DoubleStream& its = own_stream(stream);
    if (pool->ordinal != its.context->ordinal) throw Failure{kInvalidValue};
    *pointer = allocate_from(pool, size, its);
  });
}

CUDA_FAKE CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  return call("cuMemPoolCreate", [&] {
    need_start();
    const CUmemLocation& location = properties->location;
    if (properties->alloc_type != kAllocationPinned || location.type != kLocationDevice || location.id < 0 ||
        static_cast<std::size_t>(location.id) >= state().devices.size() || properties->handle_types != 0 ||
        properties->max_size != 0) {
      throw Failure{kInvalidValue};
    }
    auto pool = std::make_shared<DoublePool>();
    pool->ordinal = location.id;
    *handle = pool.get();
    state().pools[pool.get()] = std::move(pool);
  });
}

CUDA_FAKE CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return call("cuMemPoolDestroy", [&] {
    pool_of(handle);
    state().pools.erase(handle);
  });
}

CUDA_FAKE CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return call("cuMemPoolSetAttribute", [&] {
    const std::shared_ptr<DoublePool> pool = pool_of(handle);
    if (attribute != kPoolReleaseThreshold) throw Failure{kInvalidValue};
    std::memcpy(&pool->threshold, value, sizeof pool->threshold);
  });
}

CUDA_FAKE CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return call("cuMemPoolGetAttribute", [&] {
    const std::shared_ptr<DoublePool> pool = pool_of(handle);
    if (attribute != kPoolReserved) throw Failure{kInvalidValue};
    const std::uint64_t reserved = pool->used + pool->kept;
    std::memcpy(value, &reserved, sizeof reserved);
  });
}

CUDA_FAKE CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t least) {
  return call("cuMemPoolTrimTo", [&] {
    const std::shared_ptr<DoublePool> pool = pool_of(handle);
    const std::uint64_t more = least > pool->used ? least - pool->used : 0;
    pool->kept = std::min(pool->kept, more);
  });
}

CUDA_FAKE CUresult cuMemHostAlloc(void** pointer, std::size_t size, unsigned) {
  return call("cuMemHostAlloc", [&] { *pointer = reinterpret_cast<void*>(allocate_now(size, Source::kPinned)); });
}

CUDA_FAKE CUresult cuMemAllocManaged(CUdeviceptr* pointer, std::size_t size, unsigned flags) {
  return call("cuMemAllocManaged", [&] {
    if (flags != kManagedGlobal) throw Failure{kInvalidValue};
    *pointer = allocate_now(size, Source::kManaged);
  });
}

// CUDA may wait for the device here; the fake doesn't, so that who relies on that is found out.
CUDA_FAKE CUresult cuMemFree_v2(CUdeviceptr pointer) {
  Block freed;  // dropped outside the lock
  return call("cuMemFree_v2", [&] {
    need_context();
    const auto* block = block_of(pointer, 0);
    if (block == nullptr || block->first != pointer) throw Failure{kInvalidValue};
    const Source source = block->second.source;
    if (source != Source::kAlloc && source != Source::kPool && source != Source::kManaged) throw Failure{kInvalidValue};
    freed = take(pointer);
    put_back(freed);
  });
}

CUDA_FAKE CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  return call("cuMemFreeAsync", [&] {
    DoubleStream& stream = own_stream(handle);
    const auto* block = block_of(pointer, 0);
    if (block == nullptr || block->first != pointer) throw Failure{kInvalidValue};
    if (block->second.source != Source::kPool && block->second.source != Source::kAlloc) throw Failure{kInvalidValue};
    order_default_streams(stream);
    Block freed = take(pointer);
    put_back(freed);
    stream.context->backend->free(std::move(freed.buffer), stream.queue);
  });
}

CUDA_FAKE CUresult cuMemFreeHost(void* pointer) {
  Block freed;
  return call("cuMemFreeHost", [&] {
    need_context();
    const auto* block = block_of(address(pointer), 0);
    if (block == nullptr || block->second.source != Source::kPinned || block->second.host != pointer) {
      throw Failure{kInvalidValue};
    }
    freed = take(address(pointer));
  });
}

// Registered memory gets an address on the device that isn't the host's, as on devices that can't use the host's.
CUDA_FAKE CUresult cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned) {
  return call("cuMemHostRegister_v2", [&] {
    Block block;
    block.source = Source::kRegistered;
    block.context = &need_context();
    block.size = size;
    block.host = pointer;
    void* alias = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (alias == MAP_FAILED) throw Failure{kOutOfMemory};
    state().blocks[address(alias)] = std::move(block);
  });
}

CUDA_FAKE CUresult cuMemHostUnregister(void* pointer) {
  return call("cuMemHostUnregister", [&] {
    need_context();
    auto* block = block_of(address(pointer), 0);
    if (block == nullptr || block->second.source != Source::kRegistered) throw Failure{kInvalidValue};
    const CUdeviceptr alias = block->first;
    ::munmap(reinterpret_cast<void*>(alias), take(alias).size);
  });
}

CUDA_FAKE CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* on_device, void* pointer, unsigned) {
  return call("cuMemHostGetDevicePointer_v2", [&] {
    need_context();
    if (!attribute_of(address(pointer), kPointerDevicePointer, on_device)) throw Failure{kInvalidValue};
  });
}

CUDA_FAKE CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr pointer) {
  return call("cuMemGetAddressRange_v2", [&] {
    need_context();
    const auto* block = block_of(pointer, 0);
    if (block == nullptr) throw Failure{kNotFound};
    if (base != nullptr) *base = block->first;
    if (size != nullptr) *size = block->second.size;
  });
}

CUDA_FAKE CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr pointer) {
  return call("cuPointerGetAttribute", [&] {
    need_context();
    if (block_of(pointer, 0) == nullptr) throw Failure{kInvalidValue};
    attribute_of(pointer, attribute, value);
  });
}

CUDA_FAKE CUresult cuPointerGetAttributes(unsigned n, int* attributes, void** values, CUdeviceptr pointer) {
  return call("cuPointerGetAttributes", [&] {
    need_start();  // addresses are the process's, not a context's: UCX asks on threads without one
    for (unsigned i = 0; i < n; ++i) attribute_of(pointer, attributes[i], values[i]);
  });
}

// Synchronous copies are always complete here when they return.
CUDA_FAKE CUresult cuPointerSetAttribute(const void*, int attribute, CUdeviceptr pointer) {
  return call("cuPointerSetAttribute", [&] {
    need_context();
    if (attribute != kPointerSyncMemops || block_of(pointer, 0) == nullptr) throw Failure{kInvalidValue};
  });
}

CUDA_FAKE CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyAsync", [&] { copy(to, from, size, own_stream(stream)); });
}

CUDA_FAKE CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  return call("cuMemcpyHtoDAsync_v2", [&] { copy(to, address(from), size, own_stream(stream)); });
}

CUDA_FAKE CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyDtoHAsync_v2", [&] { copy(address(to), from, size, own_stream(stream)); });
}

CUDA_FAKE CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyDtoDAsync_v2", [&] { copy(to, from, size, own_stream(stream)); });
}

CUDA_FAKE CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t size) {
  return copy_and_wait("cuMemcpyHtoD_v2", to, address(from), size);
}

CUDA_FAKE CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t size) {
  return copy_and_wait("cuMemcpyDtoH_v2", address(to), from, size);
}

CUDA_FAKE CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                     std::size_t size, CUstream stream) {
  return call("cuMemcpyPeerAsync", [&] {
    const auto check = [size](CUdeviceptr pointer, CUcontext context) {
      const auto* block = block_of(pointer, size);
      if (block == nullptr || block->second.context->ordinal != context_of(context).ordinal) {
        throw Failure{kInvalidValue};
      }
    };
    check(to, to_context);
    check(from, from_context);
    copy_between(to, from, size, own_stream(stream));
  });
}

CUDA_FAKE CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t size, CUstream handle) {
  return call("cuMemsetD8Async", [&] {
    DoubleStream& stream = own_stream(handle);
    if (size == 0) return;
    order_default_streams(stream);
    crossdock::device::Context& backend = *stream.context->backend;
    // The bytes are copied from host memory that is freed in the stream's order.
    auto bytes = std::make_shared<std::string>(size, static_cast<char>(value));
    const BufferRef from{
        .data = bytes->data(), .size = size, .device = {}, .kind = MemoryKind::kHost, .read_only = true};
    crossdock::device::Buffer keep = backend.adopt(from, bytes);
    backend.copy(bytes_at(to, size), from, stream.queue);
    backend.free(std::move(keep), stream.queue);
  });
}
