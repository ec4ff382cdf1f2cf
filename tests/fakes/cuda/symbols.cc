// Finding functions by version, as newer drivers let one do.
#include <dlfcn.h>

#include <cstring>

#include "state.h"

using namespace crossdock::cuda_fake;

namespace {

/// A function, the version of CUDA that brought this signature, and the name by which it is exported.
struct Versioned {
  const char* name;
  int version;
  const char* exported;
};

/// What the wrong version of a function gives: not the signature that the caller has, and never success.
CUresult other_signature() { return kUnknown; }
constexpr const char* kOther = "";

constexpr Versioned kFunctions[] = {
#define CUDA_FAKE_ENTRY(member, name, version, exported, parameters) {name, version, exported},
    CROSSDOCK_CUDA_FUNCTIONS(CUDA_FAKE_ENTRY)
#undef CUDA_FAKE_ENTRY
        {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
    {"cuDeviceCanAccessPeer", 4000, "cuDeviceCanAccessPeer"},
    {"cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState"},
    {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
    {"cuCtxDestroy", 4000, "cuCtxDestroy_v2"},
    {"cuCtxSetCurrent", 4000, "cuCtxSetCurrent"},
    {"cuCtxSynchronize", 2000, "cuCtxSynchronize"},
    {"cuCtxGetId", 12000, "cuCtxGetId"},
    {"cuCtxEnablePeerAccess", 4000, "cuCtxEnablePeerAccess"},
    {"cuMemHostRegister", 6050, "cuMemHostRegister_v2"},
    {"cuMemHostUnregister", 4000, "cuMemHostUnregister"},
    {"cuMemHostGetDevicePointer", 3020, "cuMemHostGetDevicePointer_v2"},
    {"cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2"},
    {"cuPointerGetAttribute", 4000, "cuPointerGetAttribute"},
    {"cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2"},
    {"cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2"},
    {"cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2"},
    {"cuMemcpyHtoD", 3020, "cuMemcpyHtoD_v2"},
    {"cuMemcpyDtoH", 3020, "cuMemcpyDtoH_v2"},
    {"cuMemsetD8Async", 3020, "cuMemsetD8Async"},
    {"cuLaunchHostFunc", 10000, "cuLaunchHostFunc"},
    {"cuGetProcAddress", 11030, "cuGetProcAddress"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    // Signatures before and after those that are here.
    {"cuMemAlloc", 2000, kOther},
    {"cuMemFree", 2000, kOther},
    {"cuStreamDestroy", 2000, kOther},
    {"cuEventDestroy", 2000, kOther},
    {"cuCtxPushCurrent", 2000, kOther},
    {"cuCtxPopCurrent", 2000, kOther},
    {"cuDevicePrimaryCtxRelease", 7000, kOther},
    {"cuIpcOpenMemHandle", 4010, kOther},
    {"cuStreamGetCtx", 12050, kOther},
    {"cuCtxGetDevice", 13000, kOther},
};

constexpr int kFound = 0;
constexpr int kSymbolNotFound = 1;
constexpr int kVersionNotSufficient = 2;

/// The newest signature that `version` had.
int find(const char* name, int version, void** function) {
  const Versioned* best = nullptr;
  bool known = false;
  for (const Versioned& candidate : kFunctions) {
    if (std::strcmp(candidate.name, name) != 0) continue;
    known = true;
    if (candidate.version <= version && (best == nullptr || candidate.version > best->version)) best = &candidate;
  }
  *function = nullptr;
  if (!known) return kSymbolNotFound;
  if (best == nullptr) return kVersionNotSufficient;
  if (state().hidden.count(best->exported) != 0) return kSymbolNotFound;
  if (best->exported == kOther) {
    *function = reinterpret_cast<void*>(&other_signature);
    return kFound;
  }
  // This library's own, whatever else of that name the process has.
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&other_signature), &here) == 0) return kSymbolNotFound;
  void* library = ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return kSymbolNotFound;
  *function = ::dlsym(library, best->exported);
  ::dlclose(library);
  return *function != nullptr ? kFound : kSymbolNotFound;
}

}  // namespace

CUDA_FAKE CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t, int* status) {
  return call("cuGetProcAddress_v2", [&] {
    const int found = find(name, version, function);
    if (status != nullptr) *status = found;
    if (found == kSymbolNotFound) throw Failure{kNotFound};
  });
}

CUDA_FAKE CUresult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t) {
  return call("cuGetProcAddress", [&] {
    if (find(name, version, function) != kFound) throw Failure{kNotFound};
  });
}
