#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "async_error.h"
#include "crossdock/core/error.h"
#include "crossdock/device/sycl.h"
#include "sycl_context.h"
#include "sycl_library.h"

namespace crossdock::device {

namespace {

using namespace sycl;

/// The path of the CPU's OpenCL run time that pip installs, relative to the folder in which pip installs dpctl.
constexpr const char* kCpuRunTime = "/../../../libintelocl.so";

class OurDriver final : public SyclDriver {
 public:
  explicit OurDriver(std::shared_ptr<SyclLibrary> library) noexcept : library_(std::move(library)) {}
  ~OurDriver() override {
    if (!library_->in_child()) library_->queues().close();
  }
  OurDriver(const OurDriver&) = delete;
  OurDriver& operator=(const OurDriver&) = delete;

  std::string_view name() const noexcept override { return "sycl"; }
  std::string version() const override { return library_->version(); }

  std::vector<Device> devices() const override {
    std::vector<Device> devices(library_->devices().size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
      devices[i] = {.type = DeviceType::kOneApi, .id = static_cast<std::int64_t>(i)};
    }
    return devices;
  }

  DeviceInfo info(const Device& device) const override {
    DeviceRef ref = library_->devices()[find(device)].get();
    const auto class_of = [&] {
      if (api().device_is_cpu(ref)) return DeviceClass::kCpu;
      return api().device_is_gpu(ref) ? DeviceClass::kGpu : DeviceClass::kAccelerator;
    };
    DeviceInfo info{.device = device,
                    .device_class = class_of(),
                    .backend = backend_of(ref),
                    .name = library_->take(api().device_name(ref)),
                    .kinds = {},
                    .memory = api().device_memory(ref)};
    if (api().device_has(ref, kUsmDevice)) info.kinds.push_back(MemoryKind::kDevice);
    if (api().device_has(ref, kUsmHost)) info.kinds.push_back(MemoryKind::kHost);
    if (api().device_has(ref, kUsmShared)) info.kinds.push_back(MemoryKind::kShared);
    return info;
  }

  /// Changes in a forked child, since a device that was chosen before the fork can't be used there.
  std::uint64_t devices_version() const noexcept override { return library_->in_child() ? 1 : 0; }

  std::string why_no_devices() const override {
    if (!library_->devices().empty()) return {};
    const std::string path = library_->path();
    const std::string beside = path.substr(0, path.find_last_of('/')) + kCpuRunTime;
    char resolved[PATH_MAX];
    const bool cpu = ::realpath(beside.c_str(), resolved) != nullptr;
    std::string why =
        cpu ? "the CPU's run time is installed; to use it, start the process with OCL_ICD_FILENAMES=" +
                  std::string(resolved) + " in the environment; a GPU needs its Level Zero or OpenCL driver"
            : "install a run time for the device (for a GPU, its Level Zero or OpenCL driver; for "
              "the CPU, the package intel-opencl-rt, and where that is in a virtual environment, start the process "
              "with OCL_ICD_FILENAMES in the environment, set to the path of its libintelocl.so)";
    if (const char* const selector = std::getenv("ONEAPI_DEVICE_SELECTOR"); selector != nullptr && *selector != '\0') {
      why += "; ONEAPI_DEVICE_SELECTOR=" + std::string(selector) + " in the environment excludes the others";
    }
    return why;
  }

  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kOneApi; }

  std::shared_ptr<Context> open(const Device& device, NativeContext native_context) override {
    const std::size_t number = find(device);
    if (!native_context) {
      return std::make_shared<SyclContext>(
          library_, static_cast<int>(number), nullptr,
          library_->check(api().device_copy(library_->devices()[number].get()), "opening a device"));
    }
    auto its_device = device_in(native_context.get(), static_cast<int>(number));
    if (its_device == nullptr) fail_other_device(device);
    return std::make_shared<SyclContext>(library_, static_cast<int>(number), context_of({device, native_context}),
                                         std::move(its_device));
  }

  Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner) override {
    library_->devices();
    return library_->queues().wrap_theirs(library_, native.get())->queue(std::move(owner));
  }

  Queue make_queue(const SyclQueueOptions& options) override {
    library_->devices();
    auto* const device = options.native_device ? static_cast<DeviceRef>(options.native_device.get())
                                               : library_->devices()[find(options.device)].get();
    return make(static_cast<ContextRef>(options.native_context.get()), device,
                (options.in_order ? kInOrder : 0) | (options.profiling ? kProfiling : 0))
        ->queue();
  }

  Queue queue_in(NativeContext native_context, const void* pointer) override {
    library_->devices();
    if (!native_context) throw InvalidArgumentError("the sycl driver was given a null sycl::context");
    auto* const context = static_cast<ContextRef>(native_context.get());
    return queue_in(context, device_for(context, pointer).get());
  }

  Queue queue_in(const DeviceContext& context) override {
    const std::size_t number = find(context.device);
    auto* const native = static_cast<ContextRef>(context.native.get());
    const auto device = device_in(native, static_cast<int>(number));
    if (device == nullptr) fail_other_device(context.device);
    return queue_in(native, device.get());
  }

  bool reaches(const DeviceContext& memory, MemoryKind /*kind*/, const DeviceContext& queue) const override {
    return context_of(memory) == context_of(queue);
  }

  SyclQueueInfo queue_info(const Queue& queue) const override {
    const SyclQueue& found = look_up(queue);
    return {.in_order = found.in_order,
            .profiling = found.profiling,
            .sub_device = found.sub_device,
            .context = found.context,
            .native_device = found.native_device};
  }

  bool same_context(const Queue& queue, const Queue& other) const override {
    return api().context_equal(look_up(queue).context.get(), look_up(other).context.get());
  }

  std::vector<std::shared_ptr<void>> sub_devices(const Device& device, std::uint32_t compute_units) override {
    DeviceRef whole = library_->devices()[find(device)].get();
    if (compute_units == 0) throw InvalidArgumentError("the sycl driver was asked for sub-devices of 0 compute units");
    const auto parts = library_->own(api().device_partition(whole, compute_units));
    std::vector<std::shared_ptr<void>> devices;
    if (parts == nullptr) return devices;
    for (std::size_t i = 0; i < api().devices_size(parts.get()); ++i) {
      devices.push_back(library_->share(library_->check(api().devices_at(parts.get(), i), "listing sub-devices")));
    }
    return devices;
  }

 private:
  const sycl::Api& api() const noexcept { return library_->api(); }

  /// Returns the index of a device. Throws NotFoundError, and like SyclLibrary::devices().
  std::size_t find(const Device& device) const {
    const std::size_t count = handles(device.type) ? library_->devices().size() : 0;
    if (device.id < 0 || static_cast<std::uint64_t>(device.id) >= count) {
      throw NotFoundError("the sycl driver has no device " + to_string(device) + "; it has " +
                          std::to_string(library_->devices().size()));
    }
    return static_cast<std::size_t>(device.id);
  }

  std::string backend_of(DeviceRef device) const {
    switch (api().device_backend(device)) {
      case kBackendOpenCl: return "opencl";
      case kBackendLevelZero: return "level_zero";
      case kBackendCuda: return "cuda";
      case kBackendHip: return "hip";
      default: return {};
    }
  }

  const SyclQueue& look_up(const Queue& queue) const {
    library_->check_fork();
    return library_->queues().find(queue);
  }

  /// Returns the device `number` of a context, or the first part of that device in it; null if the context has neither.
  Owned<OpaqueDevice> device_in(void* context, int number) const {
    const auto devices = library_->own(api().context_devices(static_cast<ContextRef>(context)));
    for (std::size_t i = 0; devices != nullptr && i < api().devices_size(devices.get()); ++i) {
      auto device = library_->check(api().devices_at(devices.get(), i), "listing a context's devices");
      if (library_->number_of(device.get()) == number) return device;
    }
    return library_->own(DeviceRef{});
  }

  /// Returns a context, the shared one of all that are equal.
  std::shared_ptr<OpaqueContext> context_of(const DeviceContext& context) const {
    if (!context.native) return library_->default_context(static_cast<int>(find(context.device)));
    return library_->share_context(
        library_->check(api().context_copy(static_cast<ContextRef>(context.native.get())), "copying a context"));
  }

  [[noreturn]] static void fail_other_device(const Device& device) {
    throw InvalidArgumentError("the sycl driver was given a context that doesn't contain the device " +
                               to_string(device));
  }

  Queue queue_in(ContextRef context, DeviceRef device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(for_contexts_, [](const auto& known) { return known.expired(); });
    for (const auto& known : for_contexts_) {
      const std::shared_ptr<SyclQueue> queue = known.lock();
      if (queue != nullptr && api().context_equal(queue->context.get(), context) &&
          api().device_equal(queue->native_device.get(), device)) {
        return queue->queue();
      }
    }
    const std::shared_ptr<SyclQueue> queue = make(context, device, kInOrder);
    for_contexts_.push_back(queue);
    return queue->queue();
  }

  /// Returns the device of a context that a pointer belongs to; the first device if it is null or bound to no device.
  Owned<OpaqueDevice> device_for(ContextRef context, const void* pointer) const {
    if (pointer != nullptr) {
      auto* const address = const_cast<void*>(pointer);
      const std::optional<MemoryKind> kind = library_->kind_of(address, context);
      if (!kind) {
        throw InvalidArgumentError("the sycl driver was given a pointer that isn't bound to the given context");
      }
      if (kind != MemoryKind::kHost) {
        if (auto bound = library_->device_of(address, context)) return bound;
      }
    }
    const auto devices = library_->check(api().context_devices(context), "asking a context for its devices");
    return library_->check(api().devices_at(devices.get(), 0), "asking a context for its devices");
  }

  std::shared_ptr<SyclQueue> make(ContextRef context, DeviceRef device, int properties) const {
    QueueRef made = context != nullptr ? api().queue_create(context, device, note_async_error, properties)
                                       : api().queue_create_for(device, note_async_error, properties);
    if (made == nullptr && context != nullptr) {
      throw InvalidArgumentError(
          "the sycl driver: SYCL can't make a queue for this context and device; give a device of the context");
    }
    return library_->queues().wrap(library_, library_->check(made, "making a queue").get());
  }

  std::shared_ptr<SyclLibrary> library_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<SyclQueue>> for_contexts_;  ///< The queues that queue_in() has made.
};

}  // namespace

std::vector<std::string> sycl_library_candidates(const std::vector<std::string>& first) {
  const char* chosen = std::getenv("CROSSDOCK_SYCL_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> candidates = first;
  candidates.emplace_back("libDPCTLSyclInterface.so");
  return candidates;
}

std::shared_ptr<SyclDriver> make_sycl_driver(const std::vector<std::string>& candidates,
                                             std::vector<std::string>* tried) {
  std::shared_ptr<SyclLibrary> library = SyclLibrary::open(candidates, tried);
  if (library != nullptr) return std::make_shared<OurDriver>(std::move(library));
  if (tried != nullptr && !tried->empty()) tried->back() += " (it comes with the Python package dpctl)";
  return nullptr;
}

}  // namespace crossdock::device
