#include "session/copy_elements.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"

namespace crossdock::session {
namespace {

/// Changes both so that the target's addresses rise, the last dimension being its densest: the elements stay the same.
void put_in_order_of(array::Tensor* to, array::Tensor* from) {
  std::vector<array::Slice> slices;
  std::vector<std::int32_t> axes(static_cast<std::size_t>(to->ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  for (const std::int32_t axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t size = to->shape()[at];
    const bool falls = to->strides()[at] < 0;
    slices.push_back({.start = falls ? size - 1 : 0, .step = falls ? -1 : 1, .count = size});
  }
  std::ranges::stable_sort(axes, std::greater<>{},
                           [&](std::int32_t axis) { return std::abs(to->strides()[static_cast<std::size_t>(axis)]); });
  for (array::Tensor* one : {to, from}) *one = transpose(slice(*one, slices), axes);
}

/// Packs the parts of the target that are in C order, one after the other. Both are on the host.
void pack_parts(const array::Tensor& to, const array::Tensor& from) {
  if (to.c_contiguous()) {
    exchange::pack(from, to.data);
    return;
  }
  for (std::int64_t i = 0; i < to.shape()[0]; ++i) {
    const array::Slice row{.start = i, .step = 1, .count = 1, .keep = false};
    pack_parts(slice(to, {&row, 1}), slice(from, {&row, 1}));
  }
}

}  // namespace

void copy_elements(const array::Tensor& to, const array::Tensor& from, const Runtime& runtime,
                   const exchange::WaitFunction& wait) {
  const bool on_host = to.device == device::Device{} && from.device == device::Device{} && from.ready();
  if (!on_host && (to.c_contiguous() || !device::host_reaches(to.device.type))) {
    const device::DriverRegistry& drivers = *runtime.drivers();
    exchange::wait_for(exchange::transfer_into(to, from, nullptr, drivers, wait), drivers, wait);
    return;
  }
  array::Tensor target = to;
  array::Tensor source = on_host ? from : exchange::on_host(from, *runtime.drivers(), wait);
  if (!to.c_contiguous()) put_in_order_of(&target, &source);
  pack_parts(target, source);
}

}  // namespace crossdock::session
