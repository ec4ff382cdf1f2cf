#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/release_order.h"
#include "device/sim.h"
#include "sim_context.h"
#include "world.h"

namespace crossdock::device {

namespace {

constexpr std::array<std::string_view, kSimVerbs> kVerbNames = {
    "open",       "allocate",   "adopt",       "free",       "copy",   "describe", "export_memory", "import_memory",
    "make_queue", "wrap_queue", "order_after", "wrap_event", "record", "query",    "wait",
};

class Simulated final : public SimDriver {
 public:
  explicit Simulated(const SimOptions& options) : world_(std::make_shared<sim::World>(options)) {
    world_->set_devices(options.devices);
  }

  std::string_view name() const noexcept override { return "sim"; }
  std::string version() const override { return "1"; }

  std::vector<Device> devices() const override {
    std::vector<Device> devices;
    for (std::int64_t id = 0, end = world_->devices(); id < end; ++id) {
      devices.push_back({.type = DeviceType::kExtDev, .id = id});
    }
    return devices;
  }

  std::uint64_t devices_version() const noexcept override { return world_->devices_version(); }

  DeviceInfo info(const Device& device) const override {
    world_->check_device(device);
    return {.device = device,
            .device_class = DeviceClass::kGpu,
            .backend = "sim",
            .name = "Crossdock's simulated device",
            .kinds = {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared},
            .memory = world_->memory()};
  }

  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kExtDev; }

  std::optional<DeviceContext> context_of_queue(NativeQueue native) const override {
    if (!world_->handles().has(native.get())) return std::nullopt;
    return DeviceContext{sim::queue_of(native.get(), *world_).device()};
  }

  std::shared_ptr<Context> open(const Device& device, NativeContext native_context) override {
    world_->enter(SimVerb::kOpen);
    world_->check_device(device);
    if (native_context) {
      throw UnsupportedError("the sim driver has no native contexts; open the device without one");
    }
    return std::make_shared<sim::SimContext>(world_, device);
  }

  void set_devices(std::uint32_t count) override { world_->set_devices(count); }
  void set_delay(std::chrono::nanoseconds delay) override { world_->set_delay(delay); }
  void set_memory(std::uint64_t bytes) override { world_->set_memory(bytes); }
  void fail_next(SimVerb verb, std::uint64_t after, const Error& error) override {
    world_->fail_next(verb, after, error);
  }
  void fail_work(std::uint64_t after, const Error& error, const Queue* queue) override {
    const sim::Timeline* timeline =
        queue == nullptr ? nullptr : sim::queue_of(queue->native(), *world_).timeline().get();
    world_->fail_work(after, error, timeline);
  }
  SimCounters counters() const override { return world_->counters(); }
  std::vector<std::string> faults() const override { return world_->faults(); }
  void forget_faults() override { world_->forget_faults(); }
  void reset() override { world_->reset(); }

 private:
  std::shared_ptr<sim::World> world_;
};

}  // namespace

std::string_view sim_verb_name(SimVerb verb) noexcept { return kVerbNames[static_cast<std::size_t>(verb)]; }

std::optional<SimVerb> sim_verb_of(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kVerbNames, name);
  if (found == kVerbNames.end()) return std::nullopt;
  return static_cast<SimVerb>(found - kVerbNames.begin());
}

std::shared_ptr<SimDriver> make_sim_driver(const SimOptions& options) {
  static constexpr ReleaseHook kHook{
      .done = []() noexcept -> std::shared_ptr<const void> { return sim::release_clock(); },
      .set_done = [](const void* done) noexcept -> const void* {
        return sim::set_release_clock(static_cast<const sim::Clock*>(done));
      }};
  install_release_hook(kHook);
  return std::make_shared<Simulated>(options);
}

}  // namespace crossdock::device
