#include "exchange/foreign_stream.h"

#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "device/cuda_streams.h"
#include "exchange/internal/stream_handle.h"

namespace crossdock::exchange {

using device::Device;
using device::DeviceContext;
using device::DriverRegistry;
using device::NativeQueue;
using device::Queue;

Queue wrap_stream(void* native, const DeviceContext& otherwise, std::shared_ptr<void> owner,
                  const DriverRegistry& drivers) {
  const auto its = drivers.for_type(otherwise.device.type)->context_of_queue(NativeQueue(native)).value_or(otherwise);
  return drivers.context(its.device, its.native)->wrap_queue(NativeQueue(native), std::move(owner));
}

Queue wrap_cuda_stream(std::int64_t handle, const std::optional<Device>& said, std::shared_ptr<void> owner,
                       const DriverRegistry& drivers) {
  const auto driver = drivers.for_type(device::DeviceType::kCuda);
  if (said && !driver->handles(said->type)) {
    throw InvalidArgumentError("the device given for a CUDA stream, " + device::to_string(*said) +
                               ", is not a CUDA device");
  }
  if (handle < 0) throw InvalidArgumentError(std::to_string(handle) + " is not a valid handle of a CUDA stream");
  void* const native = stream_handle(handle);
  const bool own = !device::is_default_cuda_stream(native);
  const auto its = own    ? driver->context_of_queue(NativeQueue(native))
                   : said ? std::optional(DeviceContext{*said})
                          : driver->current_context();
  if (its) return drivers.context(its->device, its->native)->wrap_queue(NativeQueue(native), std::move(owner));
  if (own) {
    throw InvalidArgumentError("no CUDA device here has the stream " + std::to_string(handle) +
                               ": it was destroyed, or is not a stream");
  }
  throw InvalidArgumentError("stream " + std::to_string(handle) +
                             " is a default stream, which each CUDA device has, and its device is unknown: make a "
                             "context of that device current on this thread, pass an object with a `device` or "
                             "`device_id`, or pass the device together with the handle");
}

}  // namespace crossdock::exchange
