// What other libraries link against (UCX's for CUDA), and the fake doesn't have: memory that is mapped apart from its
// allocation, and pools that are handed to other processes. All of it fails as it does on a device without them.
#include "state.h"

using namespace crossdock::cuda_fake;

namespace {

CUresult unsupported(const char* function) noexcept {
  return call(function, [] {
    need_start();
    throw Failure{kNotSupported};
  });
}

}  // namespace

CUDA_FAKE CUresult cuMemAddressFree(CUdeviceptr, std::size_t) { return unsupported("cuMemAddressFree"); }

CUDA_FAKE CUresult cuMemAddressReserve(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, std::uint64_t) {
  return unsupported("cuMemAddressReserve");
}

CUDA_FAKE CUresult cuMemCreate(std::uint64_t*, std::size_t, const void*, std::uint64_t) {
  return unsupported("cuMemCreate");
}

CUDA_FAKE CUresult cuMemExportToShareableHandle(void*, std::uint64_t, int, std::uint64_t) {
  return unsupported("cuMemExportToShareableHandle");
}

CUDA_FAKE CUresult cuMemImportFromShareableHandle(std::uint64_t*, void*, int) {
  return unsupported("cuMemImportFromShareableHandle");
}

CUDA_FAKE CUresult cuMemGetAllocationGranularity(std::size_t*, const void*, int) {
  return unsupported("cuMemGetAllocationGranularity");
}

CUDA_FAKE CUresult cuMemGetAllocationPropertiesFromHandle(void*, std::uint64_t) {
  return unsupported("cuMemGetAllocationPropertiesFromHandle");
}

CUDA_FAKE CUresult cuMemMap(CUdeviceptr, std::size_t, std::size_t, std::uint64_t, std::uint64_t) {
  return unsupported("cuMemMap");
}

CUDA_FAKE CUresult cuMemUnmap(CUdeviceptr, std::size_t) { return unsupported("cuMemUnmap"); }

CUDA_FAKE CUresult cuMemSetAccess(CUdeviceptr, std::size_t, const void*, std::size_t) {
  return unsupported("cuMemSetAccess");
}

CUDA_FAKE CUresult cuMemRelease(std::uint64_t) { return unsupported("cuMemRelease"); }

// No memory here was mapped apart from its allocation.
CUDA_FAKE CUresult cuMemRetainAllocationHandle(std::uint64_t*, void*) {
  return call("cuMemRetainAllocationHandle", [] {
    need_start();
    throw Failure{kInvalidValue};
  });
}

CUDA_FAKE CUresult cuMemRangeGetAttribute(void*, std::size_t, int, CUdeviceptr, std::size_t) {
  return unsupported("cuMemRangeGetAttribute");
}

CUDA_FAKE CUresult cuMemPoolExportPointer(void*, CUdeviceptr) { return unsupported("cuMemPoolExportPointer"); }

CUDA_FAKE CUresult cuMemPoolExportToShareableHandle(void*, void*, int, std::uint64_t) {
  return unsupported("cuMemPoolExportToShareableHandle");
}

CUDA_FAKE CUresult cuMemPoolImportFromShareableHandle(void**, void*, int, std::uint64_t) {
  return unsupported("cuMemPoolImportFromShareableHandle");
}

CUDA_FAKE CUresult cuMemPoolImportPointer(CUdeviceptr*, void*, void*) { return unsupported("cuMemPoolImportPointer"); }

CUDA_FAKE CUresult cuMemPoolSetAccess(void*, const void*, std::size_t) { return unsupported("cuMemPoolSetAccess"); }
