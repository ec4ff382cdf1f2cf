#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "cuda_context.h"
#include "cuda_library.h"
#include "current.h"
#include "device/cuda.h"

namespace crossdock::device {

namespace {

using namespace cuda;

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(std::shared_ptr<CudaLibrary> library)
      : library_(std::move(library)), deferred_(std::make_shared<DeferredFreeList>(CudaContext::watch(library_))) {}

  /// Changes in a forked child, since a device that was chosen before the fork can't be used there.
  std::uint64_t devices_version() const noexcept override { return library_->in_child() ? 1 : 0; }
  std::string_view name() const noexcept override { return "cuda"; }
  std::string version() const override { return library_->version(); }

  std::vector<Device> devices() const override {
    int count = 0;
    if (count_devices(count) != kSuccess) return {};
    std::vector<Device> devices;
    devices.reserve(static_cast<std::size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) devices.push_back({.type = DeviceType::kCuda, .id = i});
    return devices;
  }

  DeviceInfo info(const Device& device) const override {
    const int ordinal = find(device);
    CUdevice found = 0;
    library_->check(library_->api().device_get(&found, ordinal), "looking for a device");
    std::array<char, 256> name{};
    library_->check(library_->api().device_get_name(name.data(), static_cast<int>(name.size()), found),
                    "asking a device for its name");
    std::size_t memory = 0;
    library_->check(library_->api().device_total_mem(&memory, found), "asking a device for its memory");
    DeviceInfo info{.device = owning_device(device),
                    .device_class = DeviceClass::kGpu,
                    .backend = "cuda",
                    .name = name.data(),
                    .kinds = {MemoryKind::kDevice, MemoryKind::kHost},
                    .memory = memory};
    if (ContextHold::has_managed(*library_, found)) info.kinds.push_back(MemoryKind::kShared);
    return info;
  }

  std::string why_no_devices() const override {
    int count = 0;
    const CUresult result = count_devices(count);
    if (result != kSuccess) return "CUDA couldn't be started: " + library_->text(result);
    return count == 0 ? "the driver library reports no devices" : std::string();
  }

  Device owning_device(const Device& device) const noexcept override { return {DeviceType::kCuda, device.id}; }

  bool handles(DeviceType type) const noexcept override {
    return type == DeviceType::kCuda || type == DeviceType::kCudaHost || type == DeviceType::kCudaManaged;
  }

  bool one_context_each() const noexcept override { return true; }

  std::optional<DeviceContext> context_of_queue(NativeQueue queue) const override {
    void* const native = queue.get();
    if (is_default_cuda_stream(native) || library_->start() != kSuccess) return std::nullopt;
    CUcontext now = nullptr;
    if (library_->api().ctx_get_current(&now) != kSuccess) return std::nullopt;
    // By CUDA's documentation, the call may fail on a thread without a context. So any open context is made current.
    const std::shared_ptr<ContextHold> any = now == nullptr ? library_->contexts().any() : nullptr;
    const Current asking(*library_, any != nullptr ? any->native() : now);
    CUcontext its = nullptr;
    if (asking.result() != kSuccess || library_->api().stream_get_ctx(native, &its) != kSuccess || its == nullptr)
      return std::nullopt;
    return ContextHold::name_of(*library_, its);
  }

  std::optional<DeviceContext> current_context() const override {
    CUcontext now = nullptr;
    if (library_->start() != kSuccess || library_->api().ctx_get_current(&now) != kSuccess || now == nullptr) {
      return std::nullopt;
    }
    return ContextHold::name_of(*library_, now);
  }

  std::shared_ptr<Context> open(const Device& device, NativeContext native_context) override {
    const int ordinal = find(device);
    if (!native_context) return make_context(ContextHold::primary(library_, ordinal));
    const std::lock_guard lock(mutex_);
    if (const auto known = find_other(ordinal, native_context); known != others_.end()) return known->context;
    std::erase_if(others_, [](const Other& other) { return !other.context->alive(); });
    auto context = make_context(ContextHold::foreign(library_, ordinal, native_context.get()));
    if (context->native_context()) others_.push_back({context, std::nullopt});
    return context;
  }

  Queue queue_in(const DeviceContext& in) override {
    const std::shared_ptr<Context> context = open(in.device, in.native);
    const std::lock_guard lock(mutex_);
    const auto known = find_other(static_cast<int>(context->device().id), in.native);
    if (known == others_.end()) return context->make_queue();
    if (!known->queue) known->queue = context->make_queue();
    return *known->queue;
  }

 private:
  /// A native context of other code, which keeps it. `queue` is made when it is needed.
  struct Other {
    std::shared_ptr<CudaContext> context;
    std::optional<Queue> queue;
  };

  std::vector<Other>::iterator find_other(int ordinal, NativeContext native_context) {
    return std::ranges::find_if(others_, [&](const Other& other) {
      return other.context->native_context() == native_context && other.context->device().id == ordinal &&
             other.context->alive();
    });
  }

  std::shared_ptr<CudaContext> make_context(std::shared_ptr<ContextHold> hold) {
    return std::make_shared<CudaContext>(std::move(hold), deferred_);
  }

  /// Returns the ordinal of a device. Throws NotFoundError.
  int find(const Device& device) const {
    int count = 0;
    const CUresult result = handles(device.type) ? count_devices(count) : kSuccess;
    if (device.id < 0 || device.id >= count) {
      throw NotFoundError("the cuda driver has no device " + to_string(device) +
                          (result != kSuccess ? ": CUDA couldn't be started: " + library_->text(result)
                                              : "; it has " + std::to_string(count)));
    }
    return static_cast<int>(device.id);
  }

  CUresult count_devices(int& count) const {
    const CUresult result = library_->start();
    return result != kSuccess ? result : library_->api().device_get_count(&count);
  }

  std::shared_ptr<CudaLibrary> library_;
  std::shared_ptr<DeferredFreeList> deferred_;  ///< Waits for its work when the driver and its contexts are gone.
  std::mutex mutex_;
  std::vector<Other> others_;
};

}  // namespace

std::vector<std::string> cuda_library_candidates() {
  const char* chosen = std::getenv("CROSSDOCK_CUDA_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  return {"libcuda.so.1", "libcuda.so"};
}

std::shared_ptr<Driver> make_cuda_driver(const std::vector<std::string>& candidates, std::vector<std::string>* tried) {
  std::shared_ptr<CudaLibrary> library = CudaLibrary::open(candidates, tried);
  return library != nullptr ? std::make_shared<CudaDriver>(std::move(library)) : nullptr;
}

}  // namespace crossdock::device
