// Starting, errors, devices and contexts.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend.h"
#include "state.h"

using namespace crossdock::cuda_fake;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

DoubleDevice& device_of(CUdevice device) {
  need_start();
  if (device < 0 || static_cast<std::size_t>(device) >= state().devices.size()) throw Failure{kInvalidDevice};
  return state().devices[static_cast<std::size_t>(device)];
}

std::unique_ptr<DoubleContext> make_context(CUdevice ordinal, bool primary) {
  std::unique_ptr<DoubleContext> context;
  if (primary || state().destroyed.empty()) {
    context = std::make_unique<DoubleContext>();
  } else {
    context = std::move(state().destroyed.back());
    state().destroyed.pop_back();
  }
  context->id = ++state().context_ids;
  context->ordinal = ordinal;
  context->primary = primary;
  context->backend = state().driver->open(device_of(ordinal).backend);
  return context;
}

CUuuid uuid_of(CUdevice device) {
  CUuuid uuid{};
  std::memcpy(uuid.bytes, "crossdock: faked", sizeof uuid.bytes);
  uuid.bytes[15] = static_cast<unsigned char>(device);
  return uuid;
}

struct Known {
  CUresult result;
  const char* name;
  const char* text;
};

constexpr Known kKnown[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {kStubLibrary, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kMapFailed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult describe_error(CUresult result, const char** out, const char* Known::*member) noexcept {
  for (const Known& known : kKnown) {
    if (known.result == result) {
      *out = known.*member;
      return kSuccess;
    }
  }
  *out = nullptr;
  return kInvalidValue;
}

}  // namespace

CUDA_FAKE CUresult cuInit(unsigned flags) {
  return call("cuInit", [&] {
    if (flags != 0) throw Failure{kInvalidValue};
    if (state().started_in != 0) return need_start();
    const auto devices = static_cast<int>(from_environment("CROSSDOCK_CUDA_FAKE_DEVICES", 2));
    if (devices == 0) throw Failure{kNoDevice};
    state().device_memory = from_environment("CROSSDOCK_CUDA_FAKE_MEMORY", std::uint64_t{8} << 30);
    state().driver = start_backend(devices, from_environment("CROSSDOCK_CUDA_FAKE_DELAY_US", 0), state().device_memory);
    const auto backends = state().driver->devices();
    for (int i = 0; i < devices; ++i) {
      DoubleDevice device;
      device.backend = backends[static_cast<std::size_t>(i)];
      state().devices.push_back(std::move(device));
    }
    state().started_in = ::getpid();
  });
}

CUDA_FAKE CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", [&] { *version = state().version; });
}

CUDA_FAKE CUresult cuGetErrorName(CUresult result, const char** name) {
  return describe_error(result, name, &Known::name);
}

CUDA_FAKE CUresult cuGetErrorString(CUresult result, const char** text) {
  return describe_error(result, text, &Known::text);
}

CUDA_FAKE CUresult cuDeviceGetCount(int* n) {
  return call("cuDeviceGetCount", [&] {
    need_start();
    *n = static_cast<int>(state().devices.size());
  });
}

CUDA_FAKE CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", [&] {
    device_of(ordinal);
    *device = ordinal;
  });
}

CUDA_FAKE CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call("cuDeviceGetName", [&] {
    device_of(device);
    if (length <= 0) throw Failure{kInvalidValue};
    std::snprintf(name, static_cast<std::size_t>(length), "Crossdock CUDA fake %d", device);
  });
}

CUDA_FAKE CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid", [&] {
    device_of(device);
    *uuid = uuid_of(device);
    uuid->bytes[0] = 'C';  // MIG's parts of a device have one UUID here
  });
}

CUDA_FAKE CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid_v2", [&] {
    device_of(device);
    *uuid = uuid_of(device);
  });
}

CUDA_FAKE CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", [&] {
    device_of(device);
    if (const auto set = state().attributes.find(attribute); set != state().attributes.end()) {
      *value = set->second;
      return;
    }
    switch (attribute) {
      case kManagedMemory:
      case kMemoryPoolsSupported:
      case kUnifiedAddressing: *value = 1; break;
      case kPciBus: *value = 1 + device; break;
      case kComputeCapabilityMajor: *value = 8; break;
      default: *value = 0;
    }
  });
}

CUDA_FAKE CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  return call("cuDeviceTotalMem_v2", [&] {
    device_of(device);
    *bytes = state().device_memory;
  });
}

CUDA_FAKE CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return call("cuDeviceCanAccessPeer", [&] {
    device_of(device);
    device_of(peer);
    *can = device != peer ? 1 : 0;
  });
}

CUDA_FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return call("cuDevicePrimaryCtxRetain", [&] {
    DoubleDevice& device = device_of(ordinal);
    if (device.primary == nullptr) device.primary = make_context(ordinal, true);
    ++device.retained;
    *context = device.primary.get();
  });
}

CUDA_FAKE CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return call("cuDevicePrimaryCtxRelease_v2", [&] {
    DoubleDevice& device = device_of(ordinal);
    if (device.retained == 0) throw Failure{kInvalidContext};
    // The context itself stays: what was made in it and not destroyed is what tests look for.
    --device.retained;
  });
}

CUDA_FAKE CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", [&] {
    *active = device_of(ordinal).retained > 0 ? 1 : 0;
    *flags = 0;
  });
}

CUDA_FAKE CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice ordinal) {
  return call("cuCtxCreate_v2", [&] {
    auto made = make_context(ordinal, false);
    *context = made.get();
    current_contexts().push_back(made.get());
    state().contexts.insert(std::move(made));
  });
}

CUDA_FAKE CUresult cuCtxDestroy_v2(CUcontext handle) {
  return call("cuCtxDestroy_v2", [&] {
    DoubleContext& context = context_of(handle);
    if (context.primary) throw Failure{kInvalidContext};
    if (!current_contexts().empty() && current_contexts().back() == &context) current_contexts().pop_back();
    for (DoubleStream* stream : context.streams) end_stream(stream);
    for (auto event = state().events.begin(); event != state().events.end();) {
      const bool its = (*event)->context == &context;
      if (its) delete *event;
      event = its ? state().events.erase(event) : std::next(event);
    }
    for (auto block = state().blocks.begin(); block != state().blocks.end();) {
      block = block->second.context == &context ? state().blocks.erase(block) : std::next(block);
    }
    for (auto it = state().contexts.begin(); it != state().contexts.end(); ++it) {
      if (it->get() != handle) continue;
      auto destroyed = std::move(state().contexts.extract(it).value());
      *destroyed = {};
      state().destroyed.push_back(std::move(destroyed));
      break;
    }
  });
}

CUDA_FAKE CUresult cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", [&] {
    need_start();
    *context = current_contexts().empty() ? nullptr : current_contexts().back();
  });
}

CUDA_FAKE CUresult cuCtxSetCurrent(CUcontext handle) {
  return call("cuCtxSetCurrent", [&] {
    need_start();
    if (!current_contexts().empty()) current_contexts().pop_back();
    if (handle != nullptr) current_contexts().push_back(&context_of(handle));
  });
}

CUDA_FAKE CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return call("cuCtxPushCurrent_v2", [&] { current_contexts().push_back(&context_of(handle)); });
}

CUDA_FAKE CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  return call("cuCtxPopCurrent_v2", [&] {
    need_start();
    if (current_contexts().empty()) throw Failure{kInvalidContext};
    if (handle != nullptr) *handle = current_contexts().back();
    current_contexts().pop_back();
  });
}

CUDA_FAKE CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", [&] { *device = need_context().ordinal; });
}

CUDA_FAKE CUresult cuCtxGetId(CUcontext handle, std::uint64_t* id) {
  return call("cuCtxGetId", [&] { *id = handle == nullptr ? need_context().id : context_of(handle).id; });
}

CUDA_FAKE CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  return call("cuCtxEnablePeerAccess", [&] {
    need_context();
    context_of(peer);
  });
}
