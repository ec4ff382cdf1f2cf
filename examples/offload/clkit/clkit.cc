// clkit for programs that aren't in C++: arrays by DLPack, the queue as a sycl::queue*.
#include <exception>
#include <memory>
#include <string>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/device/sycl.h"
#include "crossdock/exchange/dlpack.h"
#include "crossdock/exchange/sync.h"
#include "kernels.h"

namespace xd = crossdock;

namespace {

thread_local std::string error;

clkit::Kernels& kernels() {
  // Never destroyed: SYCL may have ended before.
  static auto* const made = new clkit::Kernels(xd::device::make_default_registry());
  return *made;
}

}  // namespace

extern "C" {

/// Why the last call of this thread gave null.
[[gnu::visibility("default")]] const char* clkit_error() { return error.c_str(); }

/// The product, made on this queue; done when this returns, as DLPack carries no event. Takes both arrays, also where
/// it fails.
[[gnu::visibility("default")]] DLManagedTensorVersioned* clkit_gemm(void* queue, DLManagedTensorVersioned* a,
                                                                    DLManagedTensorVersioned* b) {
  try {
    const xd::array::Tensor first = xd::exchange::import_dlpack(a);
    const xd::array::Tensor second = xd::exchange::import_dlpack(b);
    const auto driver = std::dynamic_pointer_cast<xd::device::SyclDriver>(kernels().drivers().find("sycl"));
    const xd::device::Queue its = driver->wrap_queue(xd::device::NativeQueue(queue));
    xd::array::Tensor made = kernels().gemm(its, first, second);
    xd::exchange::wait_ready(&made, *kernels().drivers().context(made.device));
    return xd::exchange::export_dlpack(made);
  } catch (const std::exception& failure) {
    error = failure.what();
    return nullptr;
  }
}
}
