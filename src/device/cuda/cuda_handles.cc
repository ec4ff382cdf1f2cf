#include <algorithm>
#include <cstring>
#include <utility>

#include "allocation.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "cuda_context.h"
#include "device/internal/driver_checks.h"

namespace crossdock::device::cuda {

namespace {

// A handle's opaque bytes: CUDA's own, the allocation's size, the device's UUID, the exporting process's token.
constexpr std::size_t kSizeAt = sizeof(CUipcMemHandle);
constexpr std::size_t kUuidAt = kSizeAt + sizeof(std::uint64_t);
constexpr std::size_t kTokenAt = kUuidAt + sizeof(CUuuid);
constexpr std::size_t kOpaque = kTokenAt + 16;

}  // namespace

CUuuid CudaContext::uuid() const {
  CUuuid uuid{};
  // The newer function tells MIG's parts of a device apart, which can't open each other's memory.
  const auto get = api().device_get_uuid_v2 != nullptr ? api().device_get_uuid_v2 : api().device_get_uuid;
  check(get(&uuid, hold_->cu_device()), "asking a device for its UUID");
  return uuid;
}

std::string CudaContext::identity() const {
  const CUuuid device = uuid();
  return {reinterpret_cast<const char*>(&device), sizeof device};
}

MemoryHandle CudaContext::export_memory(const BufferRef& memory) {
  check_memory(memory, "memory to export");
  const auto pointer = to_address(memory.data);
  const std::optional<CudaExport> found = library().exports().find(pointer, memory.size);
  if (!found || memory.size == 0 || found->ordinal != hold_->ordinal()) {
    throw UnsupportedError("the cuda driver exports only memory that it allocated as exportable");
  }
  const Entered entered(*this, "exporting memory");
  CUipcMemHandle its{};
  check(api().ipc_get_mem_handle(&its, found->base), "exporting memory");
  const CUuuid device = uuid();
  library().exports().exported(found->base, its);

  MemoryHandle handle;
  handle.driver = driver_name();
  handle.opaque.resize(kOpaque);
  std::memcpy(handle.opaque.data(), &its, sizeof its);
  store_le<std::uint64_t>(handle.opaque.data() + kSizeAt, found->size);
  std::memcpy(handle.opaque.data() + kUuidAt, &device, sizeof device);
  std::copy(library().token().begin(), library().token().end(), handle.opaque.begin() + kTokenAt);
  handle.offset = pointer - found->base;
  handle.size = memory.size;
  return handle;
}

Buffer CudaContext::import_memory(MemoryHandle handle, const std::string& where) {
  checks::handle(driver_name(), handle, kOpaque, kSizeAt, where);
  const Entered entered(*this, "importing memory");
  const CUuuid device = uuid();
  if (std::memcmp(handle.opaque.data() + kUuidAt, &device, sizeof device) != 0) {
    throw ProtocolError(where + ": a memory handle is of another device than " + to_string(device_));
  }
  CUipcMemHandle its{};
  std::memcpy(&its, handle.opaque.data(), sizeof its);
  const bool own = std::equal(library().token().begin(), library().token().end(), handle.opaque.begin() + kTokenAt);
  return own ? import_own(handle, its, where) : map_peers(handle, its, where);
}

Buffer CudaContext::import_own(const MemoryHandle& handle, const CUipcMemHandle& its, const std::string& where) {
  const std::optional<CudaExport> found = library().exports().find(its);
  std::shared_ptr<void> owner = found ? found->memory.lock() : nullptr;
  if (owner == nullptr) throw ProtocolError(where + ": a memory handle names memory that this process doesn't export");
  if (handle.offset > found->size || handle.size > found->size - handle.offset) {
    throw ProtocolError(where + ": a memory handle names bytes outside the memory that was exported");
  }
  return {memory(found->base + handle.offset, handle.size, MemoryKind::kDevice), std::move(owner)};
}

Buffer CudaContext::map_peers(const MemoryHandle& handle, const CUipcMemHandle& its, const std::string& where) {
  CUdeviceptr base = 0;
  const CUresult result = api().ipc_open_mem_handle(&base, its, kIpcLazyPeerAccess);
  if (result == kInvalidValue || result == kInvalidHandle) {
    throw ProtocolError(where + ": CUDA doesn't know the memory that a handle names: " + library().text(result));
  }
  if (result == kInvalidContext) {
    throw UnsupportedError(where + ": CUDA opens no memory in the process that exported it, which is this one: " +
                           library().text(result) + "; another copy of the library did that");
  }
  if (result != kSuccess) {
    library().fail(result, "importing memory from " + where + ", whose process must still be running");
  }
  std::shared_ptr<void> owner =
      Allocation::owner(std::make_unique<Allocation>(hold_, Allocation::Source::kImported, base, nullptr));
  // The size in the handle comes from the peer and isn't trusted: checks the range against the size that CUDA reports.
  const PointerInfo mapped = describe(to_pointer(base));
  const std::uint64_t before = mapped.base != nullptr ? base - to_address(mapped.base) : 0;
  const std::uint64_t there = mapped.size > before ? mapped.size - before : 0;
  if (handle.offset > there || handle.size > there - handle.offset) {
    throw ProtocolError(where + ": a memory handle names " + std::to_string(handle.size) + " bytes at " +
                        std::to_string(handle.offset) + " of memory that has " + std::to_string(there));
  }
  return {memory(base + handle.offset, handle.size, MemoryKind::kDevice), std::move(owner)};
}

}  // namespace crossdock::device::cuda
