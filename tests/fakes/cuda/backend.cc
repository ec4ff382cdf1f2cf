#include "backend.h"

#include <chrono>

#include "device/sim.h"

namespace crossdock::cuda_fake {

namespace {

std::shared_ptr<device::SimDriver>& simulation() {
  static auto& driver = *new std::shared_ptr<device::SimDriver>;  // outlives the queues' threads at the process's end
  return driver;
}

device::SimDriver& started() {
  if (simulation() == nullptr) simulation() = device::make_sim_driver({});
  return *simulation();
}

}  // namespace

std::shared_ptr<device::Driver> start_backend(int devices, std::uint64_t delay_us, std::uint64_t memory) {
  started().set_devices(static_cast<std::uint32_t>(devices));
  started().set_memory(memory);
  if (delay_us != 0) set_backend_delay(delay_us);
  return simulation();
}

void set_backend_delay(std::uint64_t delay_us) { started().set_delay(std::chrono::microseconds(delay_us)); }

void fail_backend_work() { started().fail_work(0, SystemError("the CUDA fake was told to let this work fail")); }

std::vector<std::string> backend_faults() { return started().faults(); }

void reset_backend() {
  started().reset();
  set_backend_delay(0);
}

}  // namespace crossdock::cuda_fake
