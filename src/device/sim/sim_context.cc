#include "sim_context.h"

#include <algorithm>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/internal/driver_checks.h"

namespace crossdock::device::sim {

namespace {

constexpr std::string_view kSimDriver = "sim";
constexpr std::size_t kOpaque = 2 * sizeof(std::uint64_t);  // the allocation's size, and its kind

}  // namespace

QueueHandle::QueueHandle(std::shared_ptr<World> in, std::shared_ptr<WorkQueue> what)
    : world(std::move(in)), queue(std::move(what)) {
  world->handles().add(this);
}

QueueHandle::~QueueHandle() {
  if (made_in.in_child()) return;
  world->handles().remove(this);
  queue->close();
}

WorkQueue& queue_of(void* native, const World& world) {
  // A caller may pass any number as a handle, so it isn't dereferenced before it is found in the table.
  if (!world.handles().has(native)) {
    throw InvalidArgumentError("the sim driver was given a native queue that it didn't make, or that was destroyed");
  }
  return *static_cast<QueueHandle*>(native)->queue;
}

WorkQueue& SimContext::check_queue(const Queue& queue) const {
  checks::queue(kSimDriver, queue, {device_});
  return queue_of(queue.native(), *world_);
}

// Memory

Buffer SimContext::allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) {
  world_->enter(SimVerb::kAllocate);
  world_->check_device(device_);
  WorkQueue& work = check_queue(queue);
  if (size == 0) return {};
  std::shared_ptr<View> view = world_->allocate(size, device_, kind, sharing == Sharing::kExportable, work);
  const BufferRef memory{.data = view->address(), .size = size, .device = device_, .kind = kind, .read_only = false};
  return {memory, world_->own(std::move(view))};
}

Buffer SimContext::adopt(const BufferRef& memory, std::shared_ptr<void> owner) {
  world_->enter(SimVerb::kAdopt);
  world_->check_memory(memory, device_, "memory to adopt");
  return {memory, std::move(owner)};
}

void SimContext::free(Buffer&& buffer, const Queue& queue) {
  world_->enter(SimVerb::kFree);
  WorkQueue& work = check_queue(queue);
  // The buffer may also be memory of a peer device that this queue's copies read or write, or span several allocations:
  // its owner is dropped when that work is done. So only the first byte is checked.
  BufferRef start = buffer.ref();
  start.size = std::min<std::uint64_t>(start.size, 1);
  world_->check_memory(start, start.device, "memory to free");
  world_->free(std::move(buffer), work);
}

void SimContext::copy(const BufferRef& to, const BufferRef& from, const Queue& queue) {
  world_->enter(SimVerb::kCopy);
  world_->check_device(device_);
  world_->copy(to, from, device_, check_queue(queue));
}

PointerInfo SimContext::describe(const void* pointer) const {
  world_->enter(SimVerb::kDescribe);
  PointerInfo info;
  info.address = const_cast<void*>(pointer);
  info.host_accessible = true;
  if (const std::shared_ptr<View> view = world_->find(pointer)) {
    info.device = view->device();
    info.kind = view->kind();
    info.host_accessible = view->host_visible();
    info.managed = view->kind() == MemoryKind::kShared;
    info.base = view->address();
    info.size = view->size();
  }
  return info;
}

bool SimContext::accessible(const BufferRef& memory, const Queue& queue) const {
  check_queue(queue);
  // All work here is copies, and memory of a peer device is copied like the device's own. So only the device that the
  // memory belongs to counts.
  return memory.device == device_;
}

MemoryHandle SimContext::export_memory(const BufferRef& memory) {
  world_->enter(SimVerb::kExportMemory);
  world_->check_memory(memory, device_, "memory to export");
  const std::shared_ptr<View> view = world_->find(memory.data);
  if (view == nullptr || !view->descriptor || memory.size == 0) {
    throw UnsupportedError("the sim driver exports only memory that it allocated as exportable");
  }
  MemoryHandle handle;
  handle.driver = kSimDriver;
  handle.opaque.resize(kOpaque);
  store_le<std::uint64_t>(handle.opaque.data(), view->size());
  store_le<std::uint64_t>(handle.opaque.data() + sizeof(std::uint64_t), static_cast<std::uint64_t>(view->kind()));
  handle.descriptor = view->descriptor.duplicate();
  handle.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory.data) - view->address());
  handle.size = memory.size;
  return handle;
}

Buffer SimContext::import_memory(MemoryHandle handle, const std::string& where) {
  world_->enter(SimVerb::kImportMemory);
  world_->check_device(device_);
  const std::uint64_t whole = checks::handle(kSimDriver, handle, kOpaque, 0, where);
  if (!handle.descriptor) throw ProtocolError(where + ": a memory handle of the sim driver lacks its descriptor");
  const auto kind = load_le<std::uint64_t>(handle.opaque.data() + sizeof(std::uint64_t));
  if (kind > static_cast<std::uint64_t>(MemoryKind::kShared)) {
    throw ProtocolError(where + ": a memory handle of the sim driver is of the memory kind " + std::to_string(kind));
  }
  const auto memory_kind = static_cast<MemoryKind>(kind);
  std::shared_ptr<View> view = world_->import(std::move(handle.descriptor), whole, device_, memory_kind, where);
  const BufferRef memory{.data = view->address() + handle.offset,
                         .size = handle.size,
                         .device = device_,
                         .kind = memory_kind,
                         .read_only = false};
  return {memory, world_->own(std::move(view))};
}

// Queues

Queue SimContext::make_queue() {
  world_->enter(SimVerb::kMakeQueue);
  world_->check_device(device_);
  auto handle = std::make_shared<QueueHandle>(world_, world_->make_queue(device_));
  void* native = handle.get();
  return {device_, NativeQueue(native), std::move(handle)};
}

Queue SimContext::wrap_queue(NativeQueue native, std::shared_ptr<void> owner) {
  world_->enter(SimVerb::kWrapQueue);
  const WorkQueue& work = queue_of(native.get(), *world_);
  if (work.device() != device_) {
    throw InvalidArgumentError("the sim driver was given a native queue of " + to_string(work.device()) + " for " +
                               to_string(device_));
  }
  return {device_, native, std::move(owner)};
}

void SimContext::order_after(const Queue& queue, const Event& event) {
  world_->enter(SimVerb::kOrderAfter);
  WorkQueue& work = check_queue(queue);
  if (event.native() == nullptr) {
    event.check();
    return;
  }
  crossdock_sim_event* native = check_native(event.native());
  if (Signal* signal = ours(native)) {
    world_->order_after(work, event, *signal);
  } else {
    event.check();
    world_->order_after_other(work, event, native);
  }
}

// Events

Signal* SimContext::ours(crossdock_sim_event* native) const noexcept {
  Signal* signal = Signal::from(native);
  return signal != nullptr && &signal->world() == world_.get() ? signal : nullptr;
}

Event SimContext::wrap_event(NativeEvent native, std::shared_ptr<void> owner) {
  world_->enter(SimVerb::kWrapEvent);
  if (native) check_native(native.get());
  return {native, std::move(owner)};
}

Event SimContext::record(const Queue& queue) {
  world_->enter(SimVerb::kRecord);
  WorkQueue& work = check_queue(queue);
  auto signal = std::make_shared<Signal>(world_);
  void* native = static_cast<crossdock_sim_event*>(signal.get());
  Event event(NativeEvent(native), signal);
  world_->record(event, *signal, work);
  return event;
}

void SimContext::see_other(crossdock_sim_event& event, std::int32_t status) {
  world_->see_other();
  if (status >= 0) return;
  const auto failure = failure_of(event, status);
  throw_error(failure->code(), failure->what());
}

bool SimContext::query(const Event& event) {
  crossdock_sim_event* native = event.native() != nullptr ? check_native(event.native()) : nullptr;
  if (Signal* signal = ours(native)) {
    const bool done = world_->query(*signal);
    event.check();
    return done;
  }
  world_->enter(SimVerb::kQuery);
  event.check();
  if (native == nullptr) return true;
  const std::int32_t status = native->query(native);
  if (status != 0) see_other(*native, status);
  return status != 0;
}

void SimContext::wait(const Event& event) {
  crossdock_sim_event* native = event.native() != nullptr ? check_native(event.native()) : nullptr;
  if (Signal* signal = ours(native)) {
    world_->wait(*signal);
    return event.check();
  }
  world_->enter(SimVerb::kWait);
  event.check();
  if (native != nullptr) see_other(*native, native->wait(native));
}

}  // namespace crossdock::device::sim
