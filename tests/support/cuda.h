#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda.h"
#include "fakes/cuda/cuda_fake.h"

/// CUDA for tests: the fake always, and a real GPU by the same tests where there is one.
namespace crossdock::testing {

/// Where tests run: "Fake", "Gpu", or on the library of that name.
inline std::vector<std::string> cuda_candidates(const std::string& target) {
  if (target == "Fake") return {CROSSDOCK_CUDA_FAKE};
  if (target == "Gpu") return {"libcuda.so.1", "libcuda.so"};
  return {target};
}

/// The driver for a target. Null, with the reason, where there is no GPU.
inline std::shared_ptr<device::Driver> make_cuda_target(const std::string& target, std::string& why_not) {
  std::vector<std::string> tried;
  std::shared_ptr<device::Driver> driver = device::make_cuda_driver(cuda_candidates(target), &tried);
  if (driver == nullptr) {
    for (const std::string& line : tried) why_not += (why_not.empty() ? "no GPU: " : "; ") + line;
    return nullptr;
  }
  if (!driver->devices().empty()) return driver;
  why_not = "no GPU: " + driver->why_no_devices();
  return nullptr;
}

/// CUDA as another library in the process uses it: by its own interface.
class Cuda {
 public:
  explicit Cuda(const std::string& target) {
    for (const std::string& candidate : cuda_candidates(target)) {
      if (library_ == nullptr) library_ = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (library_ == nullptr) throw std::runtime_error("there is no CUDA to call");
  }
  ~Cuda() { ::dlclose(library_); }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  /// Calls a function by the name under which it is exported.
  template <typename... Parameters>
  int call(const char* function, Parameters... parameters) const {
    return reinterpret_cast<int (*)(Parameters...)>(symbol(function))(parameters...);
  }
  /// As call(), expecting success.
  template <typename... Parameters>
  void run(const char* function, Parameters... parameters) const {
    EXPECT_EQ(call(function, parameters...), 0) << function;
  }
  template <typename... Parameters>
  void control(const char* function, Parameters... parameters) const {
    reinterpret_cast<void (*)(Parameters...)>(symbol(function))(parameters...);
  }

  void* current() const {
    void* context = nullptr;
    run("cuCtxGetCurrent", &context);
    return context;
  }
  void* make_context(int device) const {
    void* context = nullptr;
    run("cuCtxCreate_v2", &context, 0u, device);
    return context;
  }
  void* make_stream() const {
    void* stream = nullptr;
    run("cuStreamCreate", &stream, 1u);
    return stream;
  }

  // Of the fake alone
  CrossdockCudaFakeLive live() const {
    CrossdockCudaFakeLive live{};
    control("crossdockCudaFakeLive", &live);
    return live;
  }
  std::uint64_t pools() const { return reinterpret_cast<std::uint64_t (*)()>(symbol("crossdockCudaFakePools"))(); }
  /// Bytes that pools took from the system since the last reset.
  std::uint64_t mapped() const { return reinterpret_cast<std::uint64_t (*)()>(symbol("crossdockCudaFakeMapped"))(); }
  std::uint64_t calls(const char* function) const {
    return reinterpret_cast<std::uint64_t (*)(const char*)>(symbol("crossdockCudaFakeCalls"))(function);
  }
  void fail(const char* function, int nth, int result) const {
    control("crossdockCudaFakeFail", function, nth, result);
  }

 private:
  void* symbol(const char* function) const {
    void* found = ::dlsym(library_, function);
    if (found == nullptr) throw std::runtime_error(std::string("CUDA lacks ") + function);
    return found;
  }
  void* library_ = nullptr;
};

/// No two streams met without an order between them.
inline void expect_no_faults(const Cuda& cuda) {
  char text[512] = {};
  EXPECT_EQ(cuda.call("crossdockCudaFakeFaults", static_cast<char*>(text), std::uint64_t{sizeof text}), 0) << text;
}

inline void expect_nothing_alive(const Cuda& cuda) {
  const CrossdockCudaFakeLive live = cuda.live();
  EXPECT_EQ(live.allocations, 0u);
  EXPECT_EQ(live.streams, 0u);
  EXPECT_EQ(live.events, 0u);
  EXPECT_EQ(live.contexts, 0u);
  EXPECT_EQ(cuda.pools(), 0u);
}

}  // namespace crossdock::testing
