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
  explicit CudaDriver(std::shared_ptr<CudaLibrary> library) noexcept : library_(std::move(library)) {}

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

  std::optional<Device> device_of_queue(void* native) const override {
    if (is_default_cuda_stream(native) || library_->start() != kSuccess) return std::nullopt;
    CUcontext now = nullptr;
    if (library_->api().ctx_get_current(&now) != kSuccess) return std::nullopt;
    // By CUDA's documentation, the call may fail on a thread without a context. So any open context is made current.
    const std::shared_ptr<ContextHold> any = now == nullptr ? opened() : nullptr;
    const Current asking(*library_, any != nullptr ? any->native() : now);
    CUcontext its = nullptr;
    if (library_->api().stream_get_ctx(native, &its) != kSuccess || its == nullptr) return std::nullopt;
    const Current there(*library_, its);
    return there.result() == kSuccess ? device_of_current() : std::nullopt;
  }

  std::optional<Device> current_device() const override {
    return library_->start() == kSuccess ? device_of_current() : std::nullopt;
  }

  std::shared_ptr<Context> open(const Device& device, void* native_context) override {
    const int ordinal = find(device);
    auto hold = native_context == nullptr ? ContextHold::primary(library_, ordinal)
                                          : ContextHold::foreign(library_, ordinal, native_context);
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(opened_, [](const std::weak_ptr<ContextHold>& of) { return of.expired(); });
      opened_.push_back(hold);
    }
    return std::make_shared<CudaContext>(std::move(hold));
  }

 private:
  /// Returns a context that was opened here and is still held; null if there is none.
  std::shared_ptr<ContextHold> opened() const {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<ContextHold>& hold : opened_) {
      if (auto held = hold.lock()) return held;
    }
    return nullptr;
  }

  /// Returns the device of the calling thread's current context.
  std::optional<Device> device_of_current() const {
    CUdevice device = 0;
    if (library_->api().ctx_get_device(&device) != kSuccess) return std::nullopt;
    int count = 0;
    if (count_devices(count) != kSuccess) return std::nullopt;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice one = 0;
      if (library_->api().device_get(&one, ordinal) == kSuccess && one == device) {
        return Device{DeviceType::kCuda, ordinal};
      }
    }
    return std::nullopt;
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
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<ContextHold>> opened_;
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
