#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "device/sim.h"
#include "gil.h"
#include "tensor/transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using device::SimDriver;
using device::SimVerb;

std::shared_ptr<SimDriver> simulator() {
  auto driver = std::dynamic_pointer_cast<SimDriver>(drivers().find("sim"));
  if (driver == nullptr) throw UnsupportedError("this build of crossdock has no simulated devices");
  return driver;
}

void configure(std::uint32_t devices, double delay, std::optional<std::uint64_t> memory) {
  constexpr double kLongest = 3600;
  if (!(delay >= 0 && delay <= kLongest)) {
    throw InvalidArgumentError("delay must be from 0 to 3600 seconds; it was " + std::to_string(delay));
  }
  const std::shared_ptr<SimDriver> driver = simulator();
  driver->set_delay(std::chrono::nanoseconds(std::llround(delay * 1e9)));
  driver->set_memory(memory.value_or(device::SimOptions().memory));
  driver->set_devices(devices);
}

SimVerb verb_of(const std::string& name) {
  if (const auto verb = device::sim_verb_of(name)) return *verb;
  std::string what = "\"" + name + "\" is not a function of the driver; the functions are:";
  for (std::size_t verb = 0; verb < device::kSimVerbs; ++verb) {
    what += " ";
    what += device::sim_verb_name(static_cast<SimVerb>(verb));
  }
  throw InvalidArgumentError(what);
}

nb::dict counters() {
  const device::SimCounters counters = simulator()->counters();
  nb::dict found;
  for (std::size_t number = 0; number < device::kSimVerbs; ++number) {
    const auto verb = static_cast<SimVerb>(number);
    found[nb::str(device::sim_verb_name(verb).data())] = counters.of(verb);
  }
  found["total"] = counters.total();
  found["bytes_allocated"] = counters.bytes_allocated;
  found["bytes_copied"] = counters.bytes_copied;
  found["live_allocations"] = counters.live_allocations;
  found["live_bytes"] = counters.live_bytes;
  return found;
}

/// Measures the driver's own functions, for benchmarks. Copies `size` bytes at the address `data` to the first device
/// and back, each way in `pieces` copies into new memory. Returns the seconds of each way, which include the allocation
/// and the wait. Doesn't use the code that copies arrays.
std::pair<double, double> plain_copies(std::uintptr_t data, std::uint64_t size, std::uint64_t pieces) {
  if (pieces == 0 || size % pieces != 0) throw InvalidArgumentError("size must be a multiple of pieces");
  const device::DriverRegistry& registry = drivers();
  const GilRelease release;
  const device::Device device{.type = device::DeviceType::kExtDev, .id = 0};
  const auto context = registry.context(device);
  const auto host = registry.context({});
  const device::Queue queue = registry.default_queue(device);
  const auto timed = [&](device::Context& of, device::MemoryKind kind, const device::Queue& on,
                         const device::BufferRef& from) {
    const auto start = std::chrono::steady_clock::now();
    device::Buffer to = of.allocate(size, kind, device::Sharing::kPrivate, on);
    for (std::uint64_t at = 0; at < size; at += size / pieces) {
      context->copy(to.ref().slice(at, size / pieces), from.slice(at, size / pieces), queue);
    }
    context->wait(context->record(queue));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return std::make_pair(std::move(to), taken.count());
  };
  const device::BufferRef source{.data = reinterpret_cast<void*>(data),
                                 .size = size,
                                 .device = {},
                                 .kind = device::MemoryKind::kHost,
                                 .read_only = true};
  const auto [there, out] = timed(*context, device::MemoryKind::kDevice, queue, source);
  const auto [again, back] = timed(*host, device::MemoryKind::kHost, host->make_queue(), there.ref());
  return {out, back};
}

}  // namespace

void bind_testing(nb::module_& module) {
  module.def("sim_configure", configure, nb::kw_only(), "devices"_a, "delay"_a, "memory"_a.none());
  module.def("sim_devices", [] { return simulator()->devices().size(); });
  module.def(
      "sim_fail_next",
      [](const std::string& verb, std::uint64_t after, int code, const std::string& what) {
        simulator()->fail_next(verb_of(verb), after, Error(static_cast<ErrorCode>(code), what));
      },
      "verb"_a, "after"_a, "code"_a, "what"_a);
  module.def(
      "sim_fail_work",
      [](std::uint64_t after, int code, const std::string& what) {
        simulator()->fail_work(after, Error(static_cast<ErrorCode>(code), what));
      },
      "after"_a, "code"_a, "what"_a);
  module.def("sim_counters", counters);
  module.def("sim_faults", [] { return simulator()->faults(); });
  module.def("sim_forget_faults", [] { simulator()->forget_faults(); });
  module.def("sim_plain_copies", plain_copies, "data"_a, "size"_a, "pieces"_a);
  module.def("sim_reset", [] { simulator()->reset(); });
}

}  // namespace crossdock::python
