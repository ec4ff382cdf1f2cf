#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "crossdock/array/tensor.h"
#include "crossdock/device/device.h"

namespace crossdock::testing {

/// A tensor of `type` over memory that nobody owns.
inline array::Tensor made_tensor(std::string_view type, std::vector<std::int64_t> shape,
                                 std::vector<std::int64_t> strides, void* data) {
  array::Tensor tensor;
  tensor.type = array::parse_element_type(type);
  tensor.extents = array::Extents(static_cast<std::int32_t>(shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    tensor.extents.shape()[d] = shape[d];
    tensor.extents.strides()[d] = strides[d];
  }
  tensor.data = data;
  return tensor;
}

/// CUDA's devices, of which the fake has two.
inline constexpr device::Device kFirst{device::DeviceType::kCuda, 0};
inline constexpr device::Device kSecond{device::DeviceType::kCuda, 1};
/// How long a piece of work takes on the fake, in microseconds.
inline constexpr std::uint64_t kDelay = 20'000;

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __lsan_disable();
extern "C" void __lsan_enable();
#endif

/// While it is there, what this thread allocates and loses is no leak.
class LeakIsMeant {
 public:
#if defined(__SANITIZE_ADDRESS__)
  LeakIsMeant() { __lsan_disable(); }
  ~LeakIsMeant() { __lsan_enable(); }
#else
  LeakIsMeant() {}
#endif
  LeakIsMeant(const LeakIsMeant&) = delete;
  LeakIsMeant& operator=(const LeakIsMeant&) = delete;
};

/// An owner that counts how often it went.
inline std::shared_ptr<const void> counting_owner(int* released) {
  return std::shared_ptr<const void>(released, [released](const void*) { ++*released; });
}

}  // namespace crossdock::testing
