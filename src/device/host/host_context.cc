#include "host_context.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "core/memory_limit.h"
#include "crossdock/core/error.h"
#include "device/internal/driver_checks.h"

namespace crossdock::device {

namespace {

constexpr std::string_view kHostDriver = "host";

void check_queue(const Queue& queue) { checks::queue(kHostDriver, queue, {Device{}}); }

void check_memory(const BufferRef& memory, const char* what) {
  checks::memory(kHostDriver, memory, host_readable(memory.device.type), what);
}

BufferRef host_memory(void* data, std::uint64_t size, bool read_only) noexcept {
  return {.data = data, .size = size, .device = {}, .kind = MemoryKind::kHost, .read_only = read_only};
}

}  // namespace

void HostExports::add(const std::shared_ptr<Region>& region) {
  const std::lock_guard lock(mutex_);
  regions_[region->data()] = region;
}

void HostExports::remove(const std::byte* start) noexcept {
  const std::lock_guard lock(mutex_);
  regions_.erase(start);
}

std::shared_ptr<Region> HostExports::find(const void* pointer, std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  auto after = regions_.upper_bound(static_cast<const std::byte*>(pointer));
  if (after == regions_.begin()) return nullptr;
  std::shared_ptr<Region> region = std::prev(after)->second.lock();
  return region && region->contains(pointer, size) ? region : nullptr;
}

Buffer HostContext::allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) {
  check_queue(queue);
  if (kind != MemoryKind::kHost) throw UnsupportedError("the host driver has host memory only");
  if (size == 0) return {};
  checks::size(kHostDriver, size);
  if (sharing == Sharing::kExportable) {
    std::shared_ptr<Region> region = Region::make_recycled(size, "crossdock-host");
    exports_->add(region);
    std::byte* data = region->writable();
    // Removes the address from the list while it is still mapped, so that no later allocation can have it by then.
    std::shared_ptr<void> owner(data, [region = std::move(region), exports = exports_](void*) mutable {
      exports->remove(region->data());
      region.reset();
    });
    return {host_memory(data, size, false), std::move(owner)};
  }
  check_memory_room(size, "a buffer of the host driver");
  void* data = std::aligned_alloc(kBufferAlignment, align_up(size, kBufferAlignment));
  if (data == nullptr) throw ResourceError("the host driver has no memory for " + std::to_string(size) + " bytes");
  return {host_memory(data, size, false), std::shared_ptr<void>(data, std::free)};
}

Buffer HostContext::adopt(const BufferRef& memory, std::shared_ptr<void> owner) {
  check_memory(memory, "memory to adopt");
  return {memory, std::move(owner)};
}

void HostContext::free(Buffer&& buffer, const Queue& queue) {
  check_queue(queue);
  check_memory(buffer.ref(), "memory to free");
  const Buffer taken = std::move(buffer);  // freed at once: the queue has no work
}

void HostContext::copy(const BufferRef& to, const BufferRef& from, const Queue& queue) {
  check_queue(queue);
  check_memory(to, "the target of a copy");
  check_memory(from, "the source of a copy");
  checks::copy(kHostDriver, to, from);
  if (to.size != 0) std::memcpy(to.data, from.data, to.size);
}

PointerInfo HostContext::describe(const void* pointer) const {
  PointerInfo info;
  info.address = const_cast<void*>(pointer);
  info.host_accessible = true;
  if (const std::shared_ptr<Region> region = exports_->find(pointer, 0)) {
    info.base = region->writable();
    info.size = region->size();
  }
  return info;
}

bool HostContext::accessible(const BufferRef& memory, const Queue& queue) const {
  check_queue(queue);
  // The host reads memory that isn't kDevice like its own, also if the memory has another device's type.
  return host_readable(memory.device.type) || memory.kind != MemoryKind::kDevice;
}

MemoryHandle HostContext::export_memory(const BufferRef& memory) {
  check_memory(memory, "memory to export");
  const std::shared_ptr<Region> region = exports_->find(memory.data, memory.size);
  if (region == nullptr || memory.size == 0) {
    throw UnsupportedError("the host driver exports only memory that it allocated as exportable");
  }
  MemoryHandle handle;
  handle.driver = kHostDriver;
  // The importer checks the descriptor's size. So the handle holds the region's size, as well as the exported part.
  handle.opaque.resize(sizeof(std::uint64_t));
  store_le<std::uint64_t>(handle.opaque.data(), region->size());
  handle.descriptor = UniqueFd(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!handle.descriptor) throw_errno(errno, "duplicating a descriptor to export memory of the host driver");
  handle.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory.data) - region->data());
  handle.size = memory.size;
  return handle;
}

Buffer HostContext::import_memory(MemoryHandle handle, const std::string& where) {
  const std::uint64_t whole = checks::handle(kHostDriver, handle, sizeof(std::uint64_t), 0, where);
  if (!handle.descriptor) throw ProtocolError(where + ": a memory handle of the host driver lacks its descriptor");
  const std::shared_ptr<const Region> region =
      Region::adopt(std::move(handle.descriptor), RegionKind::kRecycled, whole, {}, where);
  auto* data = const_cast<std::byte*>(region->data()) + handle.offset;
  std::shared_ptr<void> owner(data, [region](void*) {});
  return {host_memory(data, handle.size, true), std::move(owner)};
}

Queue HostContext::make_queue() { return {Device{}, NativeQueue(), nullptr}; }

Queue HostContext::wrap_queue(NativeQueue native, std::shared_ptr<void> owner) {
  if (native) throw UnsupportedError("the host driver has no native queues; make one of its own");
  return {Device{}, NativeQueue(), std::move(owner)};
}

void HostContext::order_after(const Queue& queue, const Event& event) {
  check_queue(queue);
  wait(event);
}

Event HostContext::wrap_event(NativeEvent native, std::shared_ptr<void> owner) {
  if (native) {
    throw UnsupportedError("the host driver has no native events; CPU memory must come with a null sync_event");
  }
  return {NativeEvent(), std::move(owner)};
}

Event HostContext::record(const Queue& queue) {
  check_queue(queue);
  return {};
}

bool HostContext::query(const Event& event) {
  if (event.need() != nullptr) throw UnsupportedError("the host driver was given an event of another driver");
  return true;
}

void HostContext::wait(const Event& event) { query(event); }

}  // namespace crossdock::device
