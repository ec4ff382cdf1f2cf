#include <cstddef>
#include <cstring>

#include "crossdock/exchange/copy.h"

namespace crossdock::exchange {
namespace {

/// One dimension of the loop. Adjacent dimensions without a gap between them are merged into one.
struct Step {
  std::int64_t count;
  std::int64_t stride;
};

template <std::size_t kWidth>
std::byte* gather(const std::byte* from, const Step& step, std::byte* to) noexcept {
  for (std::int64_t i = 0; i < step.count; ++i) {
    std::memcpy(to, from, kWidth);
    to += kWidth;
    from += step.stride;
  }
  return to;
}

std::byte* gather_row(const std::byte* from, const Step& step, std::size_t width, std::byte* to) noexcept {
  if (step.stride == static_cast<std::int64_t>(width)) {
    const std::size_t bytes = width * static_cast<std::size_t>(step.count);
    std::memcpy(to, from, bytes);
    return to + bytes;
  }
  switch (width) {
    case 1: return gather<1>(from, step, to);
    case 2: return gather<2>(from, step, to);
    case 4: return gather<4>(from, step, to);
    case 8: return gather<8>(from, step, to);
    case 16: return gather<16>(from, step, to);
    default: break;
  }
  for (std::int64_t i = 0; i < step.count; ++i) {
    std::memcpy(to, from, width);
    to += width;
    from += step.stride;
  }
  return to;
}

std::byte* gather_all(const std::byte* from, const Step* steps, int n, std::size_t width, std::byte* to) noexcept {
  if (n == 1) return gather_row(from, *steps, width, to);
  for (std::int64_t i = 0; i < steps->count; ++i) {
    to = gather_all(from, steps + 1, n - 1, width, to);
    from += steps->stride;
  }
  return to;
}

}  // namespace

void pack(const array::Tensor& from, void* to) noexcept {
  if (from.data == nullptr) return;
  Step steps[array::kMaxTensorDimensions + 1];
  int n = 0;
  for (std::size_t d = 0; d < from.shape().size(); ++d) {
    const Step step{from.shape()[d], from.strides()[d]};
    if (step.count == 1) continue;
    if (n > 0 && steps[n - 1].stride == step.count * step.stride) {
      steps[n - 1] = {steps[n - 1].count * step.count, step.stride};
    } else {
      steps[n++] = step;
    }
  }
  const auto width = static_cast<std::size_t>(from.type.itemsize());
  if (n == 0) steps[n++] = {1, from.type.itemsize()};
  gather_all(static_cast<const std::byte*>(from.data), steps, n, width, static_cast<std::byte*>(to));
}

}  // namespace crossdock::exchange
