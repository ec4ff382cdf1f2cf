#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "crossdock/core/error.h"
#include "device/internal/driver_checks.h"
#include "device/leak.h"
#include "sycl_context.h"

namespace crossdock::device::sycl {

namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

void SyclContext::check_memory(const BufferRef& memory, const char* what) const {
  const bool ours = memory.device.type == DeviceType::kOneApi;
  const bool there = memory.device.id >= 0 && memory.device.id < device_count_;
  checks::memory("sycl", memory, ours ? there : host_readable(memory.device.type), what);
}

Buffer SyclContext::allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) {
  const SyclQueue& on = look_up(queue);
  if (sharing == Sharing::kExportable) {
    throw UnsupportedError("the sycl driver can't make exportable memory: SYCL shares no memory between processes");
  }
  flush_frees(Marks::kOfAllQueues);
  deferred_.reclaim();
  const bool host = kind == MemoryKind::kHost;
  const bool shared = kind == MemoryKind::kShared;
  if (!api().device_has(on.native_device.get(), host ? kUsmHost : shared ? kUsmShared : kUsmDevice)) {
    throw UnsupportedError("the sycl driver can't allocate " +
                           std::string(host     ? "host"
                                       : shared ? "shared"
                                                : "device") +
                           " memory on " + to_string(device_) + ": the device has none");
  }
  if (size == 0) return {};
  checks::size("sycl", size);
  const auto allocate = host ? api().alloc_host : shared ? api().alloc_shared : api().alloc_device;
  void* memory = allocate(kAlignment, size, on.native);
  if (memory == nullptr) {
    throw ResourceError("the sycl driver: SYCL has no memory for " + std::to_string(size) + " bytes on " +
                        to_string(device_));
  }
  return {{.data = memory, .size = size, .device = device_, .kind = kind, .read_only = false},
          own_memory(on.context, memory, size)};
}

std::shared_ptr<void> SyclContext::own_memory(std::shared_ptr<OpaqueContext> context, void* memory,
                                              std::uint64_t size) const {
  // If the shared_ptr can't be made, its constructor runs the deleter.
  std::shared_ptr<void> owner(memory, [library = library_, context = std::move(context)](void* gone) {
    if (library->in_child()) return;
    // Removes the address from the list before it is freed, so that no later allocation can have it by then.
    library->extents().remove(gone);
    library->api().free(gone, context.get());
  });
  library_->extents().add(memory, size);
  return owner;
}

Buffer SyclContext::adopt(const BufferRef& memory, std::shared_ptr<void> owner) {
  library_->check_fork();
  check_memory(memory, "memory to adopt");
  if (memory.device.type == DeviceType::kOneApi && memory.size != 0) {
    const PointerInfo info = describe(memory.data);
    if (info.device.type != DeviceType::kOneApi) {
      throw InvalidArgumentError(
          "the sycl driver was given memory to adopt of a context that it doesn't know; wrap a queue of that context "
          "first, and keep the queue");
    }
    if (info.device != memory.device || info.kind != memory.kind) {
      throw InvalidArgumentError("the sycl driver was given memory to adopt as memory of " + to_string(memory.device) +
                                 ", but it is memory of " + to_string(info.device) +
                                 (info.kind != memory.kind ? ", of another kind" : ""));
    }
  }
  return {memory, std::move(owner)};
}

void SyclContext::free(Buffer&& buffer, const Queue& queue) {
  const SyclQueue& on = look_up(queue);
  check_memory(buffer.ref(), "memory to free");
  // Calls no function of SYCL. Python's arrays are freed where their last reference is dropped, and that may be in a
  // host task of dpctl. While a thread waits for work that is held back for a host task, SYCL lets no thread submit
  // work. So a submission by the host task would never end. A later verb calls flush_frees().
  const std::lock_guard lock(freed_mutex_);
  freed_.push_back({.owner = nullptr, .on = on.shared_from_this()});
  freed_.back().owner = buffer.release();
  any_freed_.store(true, std::memory_order_release);
}

void SyclContext::flush_frees(Marks which, const SyclQueue* used) noexcept {
  if (!any_freed_.load(std::memory_order_acquire)) return;
  std::vector<Freed> freed;
  {
    const std::lock_guard lock(freed_mutex_);
    freed.swap(freed_);
    any_freed_.store(false, std::memory_order_release);
  }
  const SyclQueue* last = nullptr;
  std::optional<Event> done;  // of the last queue; none if it took no mark
  for (Freed& one : freed) {
    if (which == Marks::kWithoutWaiting && !one.on->in_order && one.on.get() != used) continue;
    if (one.owner.use_count() == 0) continue;  // not a test for null: an owner of a null pointer is an owner
    try {
      if (one.on.get() != last) {
        done.reset();
        last = one.on.get();
        done = mark(*one.on);
      }
      if (!done) continue;
      const Queue queue = one.on->queue();
      deferred_.add(std::move(one.owner), *done, queue);
    } catch (const std::exception&) {
      // The memory stays here. dpctl's wait for a queue doesn't tell if it failed, so it can't be freed after one.
    }
  }
  std::erase_if(freed, [](const Freed& one) { return one.owner.use_count() == 0; });
  if (!freed.empty()) keep_freed(std::move(freed));
}

void SyclContext::keep_freed(std::vector<Freed> freed) noexcept {
  const std::lock_guard lock(freed_mutex_);
  try {
    freed_.insert(freed_.begin(), std::move_iterator(freed.begin()), std::move_iterator(freed.end()));
    any_freed_.store(true, std::memory_order_release);
  } catch (const std::bad_alloc&) {
    for (Freed& one : freed) leak(std::move(one.owner));
  }
}

void SyclContext::check_reach(const SyclQueue& queue, const BufferRef& memory) const {
  if (memory.device.type != DeviceType::kOneApi || memory.kind != MemoryKind::kDevice) return;
  if (library_->kind_of(memory.data, queue.context.get())) return;
  throw UnsupportedError("the sycl driver can't copy device memory of " + to_string(memory.device) +
                         " on a queue of another context: contexts share no device memory; copy it to host memory on a "
                         "queue of its own context first");
}

void SyclContext::copy(const BufferRef& to, const BufferRef& from, const Queue& queue) {
  static_cast<void>(start_copy(look_up(queue), to, from));
}

Event SyclContext::copy_recorded(const BufferRef& to, const BufferRef& from, const Queue& queue) {
  // A thread that waits for the copy's own event helps the CPU's run time with the copy. With an event of a barrier
  // behind the copy it couldn't.
  std::shared_ptr<void> event = library_->share(start_copy(look_up(queue), to, from));
  if (event == nullptr) return record(queue);
  void* native = event.get();
  return {NativeEvent(native), std::move(event)};
}

Owned<OpaqueEvent> SyclContext::start_copy(const SyclQueue& on, const BufferRef& to, const BufferRef& from) {
  check_memory(to, "the target of a copy");
  check_memory(from, "the source of a copy");
  checks::copy("sycl", to, from);
  if (to.size == 0) return library_->own(EventRef{});
  flush_frees(Marks::kWithoutWaiting, &on);
  check_reach(on, to);
  check_reach(on, from);
  // The caller has no event for work that was started if a later call fails. So that work is waited for.
  const auto started = [this, &on](EventRef event, const char* doing) {
    if (event == nullptr) api().queue_wait(on.native);
    return library_->check(event, doing);
  };
  wait_if_out_of_order(on);
  auto copied = started(api().queue_memcpy(on.native, to.data, from.data, to.size), "copying memory");
  // The barrier holds back later work, as far as barriers do (see order_after()).
  if (!on.in_order) started(api().queue_barrier(on.native), "fencing a copy on an out-of-order queue");
  return copied;
}

bool SyclContext::describe_in(ContextRef context, const Device& device, const void* pointer, PointerInfo& info) const {
  const std::optional<MemoryKind> kind = library_->kind_of(pointer, context);
  if (!kind) return false;
  info.kind = *kind;
  info.device = device;
  // Host memory belongs to all devices of its context. If there is only one device, all memory belongs to it.
  if (info.kind != MemoryKind::kHost && device_count_ > 1) {
    const auto bound = library_->device_of(info.address, context);
    if (bound != nullptr) info.device.id = library_->number_of(bound.get());
  }
  info.context = context;
  info.host_accessible = info.kind != MemoryKind::kDevice;
  info.managed = info.kind == MemoryKind::kShared;
  if (const auto extent = library_->extents().find(pointer)) {
    info.base = const_cast<void*>(extent->base);
    info.size = extent->size;
  }
  return true;
}

PointerInfo SyclContext::describe(const void* pointer) const {
  library_->check_fork();
  PointerInfo info;
  info.address = const_cast<void*>(pointer);
  info.host_accessible = true;
  if (pointer == nullptr || describe_in(default_context_.get(), device_, pointer, info)) return info;
  const auto found_in = [&](const std::shared_ptr<OpaqueContext>& context, const Device& device) {
    if (context == default_context_ || !describe_in(context.get(), device, pointer, info)) return false;
    info.other_context = context;
    return true;
  };
  if (found_in(context_, device_)) return info;
  for (const std::shared_ptr<SyclQueue>& queue : library_->queues().all()) {
    if (found_in(queue->context, queue->device)) return info;
  }
  return info;
}

bool SyclContext::accessible(const BufferRef& memory, const Queue& queue) const {
  const SyclQueue& on = look_up(queue);
  if (memory.device.type != DeviceType::kOneApi) return false;
  if (memory.data == nullptr) return memory.device == device_;
  const std::optional<MemoryKind> kind = library_->kind_of(memory.data, on.context.get());
  // If there is only one device, all memory of its contexts belongs to it. The part of a device that memory was
  // allocated on doesn't count: run times name another part (OpenCL for the CPU always the first), and parts of one
  // device reach each other's memory.
  if (kind != MemoryKind::kDevice || device_count_ == 1) return kind.has_value();
  const auto bound = library_->device_of(memory.data, on.context.get());
  return bound != nullptr && library_->number_of(bound.get()) == device_.id;
}

}  // namespace crossdock::device::sycl
