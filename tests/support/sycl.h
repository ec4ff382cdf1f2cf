#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "crossdock/device/sycl.h"

/// SYCL for tests: the real one, where the environment says where it is (CROSSDOCK_SYCL_LIBRARY).
namespace crossdock::testing {

/// Null, with the reason, where there is none.
inline std::shared_ptr<device::SyclDriver> make_sycl_target(std::string& why_not) {
  const char* chosen = std::getenv("CROSSDOCK_SYCL_LIBRARY");
  if (chosen == nullptr || *chosen == '\0') {
    why_not = "CROSSDOCK_SYCL_LIBRARY names no SYCL library";
    return nullptr;
  }
  std::vector<std::string> tried;
  auto driver = device::make_sycl_driver(device::sycl_library_candidates(), &tried);
  if (driver == nullptr) throw std::runtime_error("CROSSDOCK_SYCL_LIBRARY: " + tried.at(0));
  if (!driver->devices().empty()) return driver;
  why_not = driver->why_no_devices();
  return nullptr;
}

/// SYCL as another library in the process uses it: by dpctl's own interface. A `sycl::…*` is a void* here.
class Sycl {
 public:
  using Handler = void(int);

  Sycl() : library_(::dlopen(std::getenv("CROSSDOCK_SYCL_LIBRARY"), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error("there is no SYCL to call");
    void* all = call<void*>("DPCTLDeviceMgr_GetDevices", (31 << 16) | 63);
    device_ = call<void*>("DPCTLDeviceVector_GetAt", all, std::size_t{0});
    call<void>("DPCTLDeviceVector_Delete", all);
  }
  ~Sycl() {
    call<void>("DPCTLDevice_Delete", device_);
    ::dlclose(library_);
  }
  Sycl(const Sycl&) = delete;
  Sycl& operator=(const Sycl&) = delete;

  template <typename Result, typename... Parameters>
  Result call(const char* function, Parameters... parameters) const {
    void* symbol = ::dlsym(library_, function);
    if (symbol == nullptr) throw std::runtime_error(std::string("SYCL has no ") + function);
    return reinterpret_cast<Result (*)(Parameters...)>(symbol)(parameters...);
  }

  /// SYCL's first device.
  void* device() const noexcept { return device_; }

  /// A queue in the device's default context, or in `context`.
  std::shared_ptr<void> queue(int properties = 0, void* context = nullptr) const {
    auto* const no_handler = static_cast<Handler*>(nullptr);
    void* made = context == nullptr ? call<void*>("DPCTLQueue_CreateForDevice", device_, no_handler, properties)
                                    : call<void*>("DPCTLQueue_Create", context, device_, no_handler, properties);
    return own(made, "DPCTLQueue_Delete");
  }
  /// A context of the device's that nobody else has.
  std::shared_ptr<void> context() const {
    return own(call<void*>("DPCTLContext_Create", device_, static_cast<Handler*>(nullptr), 0), "DPCTLContext_Delete");
  }
  std::shared_ptr<void> context_of(void* queue) const {
    return own(call<void*>("DPCTLQueue_GetContext", queue), "DPCTLContext_Delete");
  }
  /// USM memory ("device", "host", "shared") in a queue's context.
  std::shared_ptr<void> memory(const std::string& kind, std::size_t size, void* queue) const {
    void* made = call<void*>(("DPCTLaligned_alloc_" + kind).c_str(), std::size_t{64}, size, queue);
    return {made, [this, context = context_of(queue)](void* memory) {
              call<void>("DPCTLfree_with_context", memory, context.get());
            }};
  }
  std::shared_ptr<void> own(void* made, const char* deleter) const {
    if (made == nullptr) throw std::runtime_error("SYCL made nothing");
    return {made, [this, deleter](void* gone) { call<void>(deleter, gone); }};
  }

 private:
  void* library_;
  void* device_ = nullptr;
};

}  // namespace crossdock::testing
