#include "kernels.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/sycl.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/offload/placement.h"

namespace xd = crossdock;
using xd::array::Tensor;
using xd::device::Queue;

namespace clkit {
namespace {

constexpr const char* kSource = R"(
  __kernel void numbers(__global double* out) { out[get_global_id(0)] = (double)get_global_id(0); }

  __kernel void gemm(__global const double* a, __global const double* b, __global double* c, ulong k, ulong n) {
    // SYCL counts dimensions the other way round.
    const ulong row = get_global_id(1), column = get_global_id(0);
    double sum = 0;
    for (ulong i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
  }
)";

// dpctl's C library, as far as it is needed (its headers are in the dpctl package's folder `include/syclinterface`).
constexpr int kUint64 = 7;
constexpr int kPointer = 10;

struct Dpctl {
  void* (*bundle_from_source)(const void* context, const void* device, const char* source, const char* options);
  void (*bundle_delete)(void* bundle);
  void* (*bundle_kernel)(void* bundle, const char* name);
  void (*kernel_delete)(void* kernel);
  void* (*submit_range)(const void* kernel, const void* queue, void** arguments, const int* types, std::size_t count,
                        const std::size_t range[3], std::size_t dimensions, const void* const* after,
                        std::size_t after_count);
  void (*event_delete)(void* event);
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("dpctl's library has no ") + name);
}

Dpctl open_dpctl() {
  void* library = nullptr;
  for (const std::string& candidate : xd::device::sycl_library_candidates()) {
    if (library == nullptr) library = ::dlopen(candidate.c_str(), RTLD_NOW);
  }
  if (library == nullptr) throw std::runtime_error("dpctl's library wasn't found; name it in CROSSDOCK_SYCL_LIBRARY");
  Dpctl api{};
  find(library, "DPCTLKernelBundle_CreateFromOCLSource", api.bundle_from_source);
  find(library, "DPCTLKernelBundle_Delete", api.bundle_delete);
  find(library, "DPCTLKernelBundle_GetKernel", api.bundle_kernel);
  find(library, "DPCTLKernel_Delete", api.kernel_delete);
  find(library, "DPCTLQueue_SubmitRange", api.submit_range);
  find(library, "DPCTLEvent_Delete", api.event_delete);
  return api;
}

std::shared_ptr<xd::device::SyclDriver> sycl_in(const xd::device::DriverRegistry& drivers) {
  auto driver = std::dynamic_pointer_cast<xd::device::SyclDriver>(drivers.find("sycl"));
  if (driver == nullptr) throw std::runtime_error("there is no SYCL here");
  return driver;
}

void check_matrix(const Tensor& array, const char* which) {
  if (array.ndim() != 2 || array.type != xd::array::ElementType{} || !array.c_contiguous()) {
    throw xd::InvalidArgumentError(std::string(which) + " isn't a float64 matrix in C order");
  }
}

}  // namespace

struct Kernels::Program {
  const Dpctl* api = nullptr;
  std::shared_ptr<void> context;  ///< Which it is for: kept, so that no other can have its address.
  void* bundle = nullptr;
  void* numbers = nullptr;
  void* gemm = nullptr;

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (numbers != nullptr) api->kernel_delete(numbers);
    if (gemm != nullptr) api->kernel_delete(gemm);
    if (bundle != nullptr) api->bundle_delete(bundle);
  }

  void submit(void* kernel, const Queue& queue, std::vector<std::pair<void*, int>> arguments,
              const std::array<std::size_t, 3>& range, std::size_t dimensions) const {
    std::vector<void*> values;
    std::vector<int> types;
    for (const auto& [value, type] : arguments) {
      values.push_back(value);
      types.push_back(type);
    }
    void* const event = api->submit_range(kernel, queue.native(), values.data(), types.data(), values.size(),
                                          range.data(), dimensions, nullptr, 0);
    if (event == nullptr) throw xd::SystemError("SYCL took no kernel");
    api->event_delete(event);
  }
};

struct Kernels::Impl {
  Dpctl api = open_dpctl();
  std::mutex mutex;
  std::vector<std::pair<Queue, std::unique_ptr<Program>>> programs;  ///< By a queue of each context.
};

Kernels::Kernels(std::shared_ptr<const xd::device::DriverRegistry> drivers)
    : drivers_(std::move(drivers)), impl_(std::make_unique<Impl>()) {}
Kernels::~Kernels() = default;

Kernels::Program& Kernels::program_for(const Queue& queue) {
  const auto driver = sycl_in(*drivers_);
  const std::lock_guard lock(impl_->mutex);
  for (auto& [known, program] : impl_->programs) {
    if (known.device() == queue.device() && driver->same_context(known, queue)) return *program;
  }
  const xd::device::SyclQueueInfo info = driver->queue_info(queue);
  auto program = std::make_unique<Program>();
  program->api = &impl_->api;
  program->context = info.context;
  program->bundle =
      impl_->api.bundle_from_source(info.context.get(), info.native_device.get(), kSource, "-cl-std=CL1.2");
  if (program->bundle == nullptr) throw xd::UnsupportedError("the device's compiler refuses the kernels of clkit");
  program->numbers = impl_->api.bundle_kernel(program->bundle, "numbers");
  program->gemm = impl_->api.bundle_kernel(program->bundle, "gemm");
  if (program->numbers == nullptr || program->gemm == nullptr) throw xd::SystemError("a kernel of clkit is missing");
  return *impl_->programs.emplace_back(queue, std::move(program)).second;
}

Tensor Kernels::numbers(const Queue& queue, std::int64_t rows, std::int64_t columns) {
  const Program& program = program_for(queue);
  const std::array<std::int64_t, 2> shape{rows, columns};
  const auto context = drivers_->context(queue.device());
  Tensor made = xd::exchange::empty(xd::array::ElementType{}, shape, context, xd::device::MemoryKind::kDevice, queue);
  program.submit(program.numbers, queue, {{made.data, kPointer}}, {static_cast<std::size_t>(made.size()), 1, 1}, 1);
  return made;
}

Tensor Kernels::gemm(const Queue& queue, const Tensor& a, const Tensor& b) {
  check_matrix(a, "the first array");
  check_matrix(b, "the second array");
  if (a.shape()[1] != b.shape()[0]) throw xd::InvalidArgumentError("the matrices don't fit");
  const std::array<const Tensor*, 2> both{&a, &b};
  xd::offload::placement(both, queue, *drivers_);
  const Program& program = program_for(queue);
  const auto context = drivers_->context(queue.device());
  for (const Tensor* array : both) xd::exchange::order_on(*array, *context, queue);
  const std::array<std::int64_t, 2> shape{a.shape()[0], b.shape()[1]};
  Tensor made = xd::exchange::empty(xd::array::ElementType{}, shape, context, xd::device::MemoryKind::kDevice, queue);
  auto inner = static_cast<std::uint64_t>(a.shape()[1]);
  auto columns = static_cast<std::uint64_t>(shape[1]);
  program.submit(
      program.gemm, queue,
      {{a.data, kPointer}, {b.data, kPointer}, {made.data, kPointer}, {&inner, kUint64}, {&columns, kUint64}},
      {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), 1}, 2);
  return made;
}

}  // namespace clkit
