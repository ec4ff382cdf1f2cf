#include "context_hold.h"

#include <string>
#include <utility>

#include "current.h"

namespace crossdock::device::cuda {

namespace {

CUdevice device_of(const CudaLibrary& library, int ordinal) {
  CUdevice device = 0;
  library.check(library.api().device_get(&device, ordinal), "looking for a device");
  return device;
}

/// Returns true if `context` is the device's primary context. Doesn't make that context if it doesn't exist.
bool is_primary(const CudaLibrary& library, CUdevice device, CUcontext context) noexcept {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  const Api& api = library.api();
  if (api.device_primary_ctx_get_state(device, &flags, &active) != kSuccess || active == 0) return false;
  if (api.device_primary_ctx_retain(&primary, device) != kSuccess) return false;
  api.device_primary_ctx_release(device);
  return primary == context;
}

bool has(const CudaLibrary& library, CUdevice device, int attribute) noexcept {
  int value = 0;
  return library.api().device_get_attribute(&value, attribute, device) == kSuccess && value != 0;
}

}  // namespace

std::shared_ptr<ContextHold> ContextHold::primary(const std::shared_ptr<CudaLibrary>& library, int ordinal) {
  auto hold = std::make_shared<ContextHold>(library, ordinal, device_of(*library, ordinal));
  const CUresult result = library->api().device_primary_ctx_retain(&hold->context_, hold->device_);
  if (result != kSuccess) library->fail(result, "opening cuda:" + std::to_string(ordinal));
  hold->retained_ = true;
  library->contexts().add(hold);
  return hold;
}

std::shared_ptr<ContextHold> ContextHold::foreign(const std::shared_ptr<CudaLibrary>& library, int ordinal,
                                                  CUcontext context) {
  if (is_primary(*library, device_of(*library, ordinal), context)) return primary(library, ordinal);
  auto hold = std::make_shared<ContextHold>(library, ordinal, device_of(*library, ordinal));
  hold->context_ = context;
  const Current current(*library, context);
  library->check(current.result(), "entering a context that was given to open a device");
  CUdevice its = 0;
  library->check(library->api().ctx_get_device(&its), "asking a context for its device");
  if (its != hold->device_) {
    throw InvalidArgumentError("the cuda driver was given a context of another device to open cuda:" +
                               std::to_string(ordinal));
  }
  if (library->api().ctx_get_id != nullptr) {
    library->check(library->api().ctx_get_id(context, &hold->id_), "asking a context for its id");
  }
  library->contexts().add(hold);
  return hold;
}

bool ContextHold::alive() const noexcept {
  if (retained_) return true;
  if (api().ctx_get_id != nullptr) {
    std::uint64_t its = 0;
    const CUresult result = api().ctx_get_id(context_, &its);
    return result == kSuccess ? its == id_ : result != kContextIsDestroyed && result != kInvalidContext;
  }
  const Current there(*library_, context_);
  CUdevice its = 0;
  return there.result() == kSuccess && (api().ctx_get_device(&its) != kSuccess || its == device_);
}

std::optional<DeviceContext> ContextHold::name_of(const CudaLibrary& library, CUcontext context) {
  if (const auto held = library.contexts().find(context)) {
    return DeviceContext{{DeviceType::kCuda, held->ordinal()}, NativeContext(held->native_unless_primary())};
  }
  const Current there(library, context);
  CUdevice its = 0;
  int count = 0;
  if (there.result() != kSuccess || library.api().ctx_get_device(&its) != kSuccess) return std::nullopt;
  if (library.api().device_get_count(&count) != kSuccess) return std::nullopt;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice one = 0;
    if (library.api().device_get(&one, ordinal) != kSuccess || one != its) continue;
    return DeviceContext{{DeviceType::kCuda, ordinal},
                         NativeContext(is_primary(library, its, context) ? nullptr : context)};
  }
  return std::nullopt;
}

ContextHold::ContextHold(std::shared_ptr<CudaLibrary> library, int ordinal, CUdevice device)
    : library_(std::move(library)),
      ordinal_(ordinal),
      device_(device),
      has_pools_(has(*library_, device, kMemoryPoolsSupported)),
      has_managed_(has_managed(*library_, device)),
      pool_(*library_, device) {}

bool ContextHold::has_managed(const CudaLibrary& library, CUdevice device) noexcept {
  return has(library, device, kManagedMemory);
}

ContextHold::~ContextHold() {
  if (library_->in_child()) return;
  if (reclaiming_ != nullptr) {
    const Current current(*this);
    if (current.result() == kSuccess) api().stream_destroy(reclaiming_);
  }
  pool_.destroy();
  if (retained_) api().device_primary_ctx_release(device_);
}

CUstream ContextHold::reclaiming() noexcept {
  const std::lock_guard lock(mutex_);
  if (reclaiming_ == nullptr && api().stream_create(&reclaiming_, kStreamNonBlocking) != kSuccess) return nullptr;
  return reclaiming_;
}

}  // namespace crossdock::device::cuda
