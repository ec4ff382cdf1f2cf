#include "cuda_context.h"

#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/internal/driver_checks.h"

namespace crossdock::device::cuda {

namespace {

// Smaller allocations may share a block of this size, and a handle opens the whole block to the importer.
constexpr std::uint64_t kBlock = std::uint64_t{2} << 20;

DeviceType type_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::kHost: return DeviceType::kCudaHost;
    case MemoryKind::kShared: return DeviceType::kCudaManaged;
    default: return DeviceType::kCuda;
  }
}

}  // namespace

CudaContext::Entered::Entered(const CudaContext& context, const char* doing)
    // Checks for a fork first: a child of the process that started CUDA may not even ask which context is current.
    : current_((context.library().check_fork(), *context.hold_)) {
  context.check(current_.result(), doing);
}

CudaContext::CudaContext(std::shared_ptr<ContextHold> hold, std::shared_ptr<DeferredFreeList> deferred)
    : hold_(std::move(hold)),
      device_{.type = DeviceType::kCuda, .id = hold_->ordinal()},
      deferred_(std::move(deferred)) {
  check(api().device_get_count(&device_count_), "counting the devices");
}

void CudaContext::check_queue(const Queue& queue) const {
  checks::queue("cuda", queue, {device_, native_context()});
  if (!queue.usable_here()) {
    throw InvalidArgumentError(
        "the cuda driver was given the per-thread default stream of another thread, which has no handle on this "
        "thread: make a queue, and order it after an event recorded on that thread");
  }
}

void CudaContext::check_memory(const BufferRef& memory, const char* what) const {
  const DeviceType type = memory.device.type;
  const bool cuda = type == DeviceType::kCuda || type == DeviceType::kCudaHost || type == DeviceType::kCudaManaged;
  const bool there = memory.device.id >= 0 && memory.device.id < device_count_;
  checks::memory("cuda", memory, cuda ? there : host_readable(type), what);
}

BufferRef CudaContext::memory(CUdeviceptr pointer, std::uint64_t size, MemoryKind kind) const noexcept {
  return {.data = to_pointer(pointer),
          .size = size,
          .device = {.type = type_of(kind), .id = device_.id},
          .kind = kind,
          .read_only = false};
}

Buffer CudaContext::allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) {
  check_queue(queue);
  const bool exportable = sharing == Sharing::kExportable;
  if (exportable && kind != MemoryKind::kDevice) {
    throw UnsupportedError("the cuda driver exports device memory only, not pinned or managed memory");
  }
  if (kind == MemoryKind::kShared && !hold_->has_managed()) {
    throw UnsupportedError("the cuda driver has no managed memory on " + to_string(device_) +
                           ", which doesn't support it");
  }
  const Entered entered(*this, "allocating memory");
  deferred_->reclaim();
  if (size == 0) return {};
  checks::size("cuda", size);

  const Allocated made = call_allocate(size, kind, sharing, queue);
  if (made.result != kSuccess) {
    library().fail(made.result, "allocating " + std::to_string(size) + " bytes on " + to_string(device_));
  }

  std::shared_ptr<void> owner =
      Allocation::owner(std::make_unique<Allocation>(hold_, made.source, made.pointer, made.event));
  if (exportable) {
    library().exports().add(
        {.base = made.pointer, .size = size, .ordinal = hold_->ordinal(), .memory = owner, .handle = std::nullopt});
  }
  return {memory(made.pointer, size, kind), std::move(owner)};
}

CudaContext::Allocated CudaContext::call_allocate(std::uint64_t size, MemoryKind kind, Sharing sharing,
                                                  const Queue& queue) {
  using Source = Allocation::Source;
  Allocated made;
  // Free memory of the pool may be what an allocation lacks.
  const auto call = [&](auto allocate) {
    made.result = allocate();
    if (made.result == kOutOfMemory && hold_->has_pools() && hold_->pool().trim()) made.result = allocate();
  };
  if (kind == MemoryKind::kHost) {
    made.source = Source::kPinned;
    void* pinned = nullptr;
    call([&] { return api().mem_host_alloc(&pinned, size, kHostAllocPortable); });
    made.pointer = to_address(pinned);
  } else if (kind == MemoryKind::kShared) {
    made.source = Source::kManaged;
    call([&] { return api().mem_alloc_managed(&made.pointer, size, kManagedGlobal); });
  } else if (sharing == Sharing::kExportable) {
    made.source = Source::kExportable;
    call([&] { return api().mem_alloc(&made.pointer, align_up(size, kBlock)); });
  } else if (hold_->has_pools()) {
    made.source = Source::kPool;
    check(api().event_create(&made.event, kEventDisableTiming), "making an event for an allocation");
    call([&] { return hold_->pool().allocate(&made.pointer, size, queue.native()); });
    if (made.result == kSuccess) {
      made.result = api().event_record(made.event, queue.native());
      if (made.result != kSuccess) api().mem_free_async(made.pointer, queue.native());
    }
    if (made.result != kSuccess) api().event_destroy(made.event);
  } else {
    call([&] { return api().mem_alloc(&made.pointer, size); });
  }
  return made;
}

Buffer CudaContext::adopt(const BufferRef& memory, std::shared_ptr<void> owner) {
  check_memory(memory, "memory to adopt");
  const bool ours = memory.device.type == DeviceType::kCuda || memory.device.type == DeviceType::kCudaManaged;
  if (ours && memory.size != 0) {
    const PointerInfo info = describe(memory.data);
    const bool right = info.device.type == memory.device.type &&
                       (memory.device.type == DeviceType::kCudaManaged || info.device.id == memory.device.id);
    if (!right) {
      throw InvalidArgumentError("the cuda driver was given memory to adopt as memory of " + to_string(memory.device) +
                                 ", but CUDA says that it is memory of " + to_string(info.device));
    }
    if (memory.device.type == DeviceType::kCuda && memory.device != device_) {
      throw InvalidArgumentError("the cuda driver was given memory of " + to_string(memory.device) + " to adopt on " +
                                 to_string(device_));
    }
  }
  return {memory, std::move(owner)};
}

void CudaContext::free(Buffer&& buffer, const Queue& queue) {
  check_queue(queue);
  check_memory(buffer.ref(), "memory to free");
  const Entered entered(*this, "freeing memory");
  deferred_->reclaim();
  std::shared_ptr<void> owner = buffer.release();
  if (owner.use_count() == 0) return;  // not a test for null: an owner of a null pointer is an owner
  Allocation* allocation = Allocation::of(owner);
  const bool pooled = allocation != nullptr && allocation->source() == Allocation::Source::kPool;
  // If the memory has other holders, each of them decides how it frees the memory.
  if (pooled && owner.use_count() == 1 && allocation->hold().native() == hold_->native()) {
    allocation->free_on(queue);
    return;
  }
  // Drops the owner here: nothing says that another verb follows, which would drop a deferred one.
  if (idle(queue)) return;
  defer_free(std::move(owner), queue);
}

CUcontext CudaContext::context_of(const BufferRef& memory) {
  if (memory.device == device_) return hold_->native();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ContextHold>& peer = peers_[memory.device.id];
  if (peer == nullptr) peer = ContextHold::primary(hold_->shared_library(), static_cast<int>(memory.device.id));
  return peer->native();
}

void CudaContext::copy(const BufferRef& to, const BufferRef& from, const Queue& queue) {
  check_queue(queue);
  check_memory(to, "the target of a copy");
  check_memory(from, "the source of a copy");
  checks::copy("cuda", to, from);
  const bool from_device = from.device.type == DeviceType::kCuda;
  const bool to_device = to.device.type == DeviceType::kCuda;
  // Pinned and managed memory belongs to its device, too.
  const auto here = [this](const BufferRef& memory) {
    return memory.device.type != DeviceType::kCpu && memory.device.id == device_.id;
  };
  const bool other = (from_device && !here(from)) || (to_device && !here(to));
  const bool peers = from_device && to_device && from.device != to.device;
  if (other && !here(to) && !here(from)) {
    throw InvalidArgumentError("the cuda driver was given memory of " + to_string(from.device) + " and " +
                               to_string(to.device) + " to copy on " + to_string(device_));
  }
  if (to.size == 0) return;
  const Entered entered(*this, "copying memory");
  const CUresult result = peers
                              ? api().memcpy_peer_async(to_address(to.data), context_of(to), to_address(from.data),
                                                        context_of(from), to.size, queue.native())
                              : api().memcpy_async(to_address(to.data), to_address(from.data), to.size, queue.native());
  if (result != kSuccess) {
    library().fail(result, "copying " + std::to_string(to.size) + " bytes from " + to_string(from.device) + " to " +
                               to_string(to.device));
  }
}

PointerInfo CudaContext::describe(const void* pointer) const {
  CUcontext context = nullptr;
  unsigned type = 0;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  unsigned managed = 0;
  int ordinal = -1;
  CUdeviceptr start = 0;
  std::size_t size = 0;
  int attributes[] = {kPointerContext,   kPointerMemoryType,    kPointerDevicePointer, kPointerHostPointer,
                      kPointerIsManaged, kPointerDeviceOrdinal, kPointerRangeStart,    kPointerRangeSize};
  void* values[] = {&context, &type, &on_device, &on_host, &managed, &ordinal, &start, &size};

  PointerInfo info;
  info.address = const_cast<void*>(pointer);
  info.host_accessible = true;
  const Entered entered(*this, "asking what a pointer points to");
  const CUresult result = api().pointer_get_attributes(std::size(attributes), attributes, values, to_address(pointer));
  if (result == kInvalidValue) return info;  // some versions return this for memory that CUDA doesn't know
  check(result, "asking what a pointer points to");
  if (type == 0 || ordinal < 0) return info;

  info.managed = managed != 0;
  info.kind = info.managed ? MemoryKind::kShared : type == kTypeHost ? MemoryKind::kHost : MemoryKind::kDevice;
  info.device = {.type = type_of(info.kind), .id = ordinal};
  info.host_accessible = info.kind != MemoryKind::kDevice;
  info.context = context;
  if (context == hold_->native()) {
    info.other_context = {hold_, native_context().get()};
  } else if (context != nullptr) {
    if (const auto its = ContextHold::name_of(library(), context))
      info.other_context = {std::shared_ptr<void>(), its->native.get()};
  }
  if (on_device != 0) info.address = to_pointer(on_device);
  if (info.kind == MemoryKind::kHost) info.host_address = on_host;
  info.base = to_pointer(start);
  info.size = start != 0 ? size : 0;
  return info;
}

bool CudaContext::accessible(const BufferRef& memory, const Queue& queue) const {
  check_queue(queue);
  const DeviceType type = memory.device.type;
  // Every device can use pinned and managed memory. Memory of another device may be mapped here or not.
  return memory.device == device_ || type == DeviceType::kCudaHost || type == DeviceType::kCudaManaged;
}

}  // namespace crossdock::device::cuda
