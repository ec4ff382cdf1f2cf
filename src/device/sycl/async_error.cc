#include "async_error.h"

#include <utility>

namespace crossdock::device::sycl {

namespace {

thread_local int noted = 0;

constexpr int kWithoutCode = -1;

}  // namespace

void note_async_error(int code) noexcept {
  if (noted == 0) noted = code != 0 ? code : kWithoutCode;
}

int take_async_error() noexcept { return std::exchange(noted, 0); }

}  // namespace crossdock::device::sycl
