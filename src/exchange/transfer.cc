#include "crossdock/exchange/copy.h"

#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using device::Context;
using device::Device;
using device::DeviceType;
using device::DriverRegistry;
using device::MemoryKind;
using device::Queue;

using ContextPtr = std::shared_ptr<Context>;

bool in_host_memory(const Tensor& tensor) noexcept { return tensor.device.type == DeviceType::kCpu; }

/// True if the tensor's queue is one of another driver than `executor`'s: it can't be ordered after the copy.
bool is_on_foreign_queue(const Tensor& tensor, const Context& executor) noexcept {
  if (tensor.mask && is_on_foreign_queue(*tensor.mask, executor)) return true;
  return tensor.queue && tensor.context && tensor.context->driver_name() != executor.driver_name();
}

/// Waits for work that the queues of `executor` can't be ordered after: that of other drivers. Returns the tensor
/// without such work.
Tensor without_foreign_work(Tensor tensor, const Context& executor, const DriverRegistry& drivers,
                            const WaitFunction& wait) {
  if (tensor.mask) {
    tensor.mask = std::make_shared<const Tensor>(without_foreign_work(*tensor.mask, executor, drivers, wait));
  }
  if (tensor.ready()) return tensor;
  const ContextPtr theirs = context_of_work(tensor, drivers);
  if (theirs->driver_name() == executor.driver_name()) return tensor;
  wait(theirs, tensor.pending());
  forget_work(&tensor);
  return tensor;
}

/// True for SYCL memory of a context that `queue` isn't in: no work on that queue reaches it.
bool in_another_context(const Tensor& tensor, const Context& executor, const Queue& queue) {
  if (tensor.device.type != DeviceType::kOneApi || !tensor.queue || *tensor.queue == queue) return false;
  if (tensor.queue->device() != queue.device() || tensor.kind != MemoryKind::kDevice) return false;
  const device::BufferRef memory{
      .data = tensor.data, .size = 0, .device = tensor.device, .kind = tensor.kind, .read_only = true};
  return tensor.data != nullptr && !executor.accessible(memory, queue);
}

/// Returns the copy executor: the target's context, or the source's if the target is the host.
ContextPtr executor_of(const Device& to, const Device& from, const Queue* queue, const DriverRegistry& drivers) {
  ContextPtr executor = drivers.context(to.type == DeviceType::kCpu ? from : to);
  // Pinned and managed memory is worked on by the queues of its device.
  if (queue != nullptr && queue->device() != executor->device()) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) + ", but the copy from " +
                               device::to_string(from) + " to " + device::to_string(to) + " runs on a queue of " +
                               device::to_string(executor->device()));
  }
  return executor;
}

/// True if no driver reaches both ends of the copy.
bool of_two_drivers(const Tensor& from, const Context& executor, const DriverRegistry& drivers) {
  return drivers.context(from.device)->driver_name() != executor.driver_name();
}

/// Makes the first half of a copy through the host, and reports it to `log`.
Tensor staged_on_host(const Tensor& from, const Device& target, const char* why, const DriverRegistry& drivers,
                      const WaitFunction& wait, const LogCallback& log) {
  if (log) {
    log(LogLevel::kInfo, "copying " + std::to_string(from.nbytes()) + " bytes from " + device::to_string(from.device) +
                             " to " + device::to_string(target) + " through the host: " + why);
  }
  return transfer(from, Device{}, std::nullopt, nullptr, drivers, wait);
}

constexpr const char* kTwoDrivers = "no driver reaches both";
constexpr const char* kTwoContexts = "they are in two SYCL contexts, which share no device memory";

}  // namespace

Tensor transfer(const Tensor& from, const Device& target, std::optional<MemoryKind> kind, const Queue* queue,
                const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  const bool from_host = in_host_memory(from);
  const bool to_host = target.type == DeviceType::kCpu;
  const ContextPtr to = drivers.context(target);
  if (from_host && to_host) {
    if (queue != nullptr && queue->device() != Device{}) {
      throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) +
                                 ", but a copy within host memory uses no queue; leave the queue out");
    }
    wait_for(from, drivers, wait);
    return copy(from, to, MemoryKind::kHost, to, to->make_queue());
  }
  const ContextPtr executor = executor_of(target, from.device, queue, drivers);
  if (!from_host && !to_host && of_two_drivers(from, *executor, drivers)) {
    return transfer(staged_on_host(from, target, kTwoDrivers, drivers, wait, log), target, kind, queue, drivers, wait);
  }
  Queue copy_queue = queue != nullptr ? *queue : drivers.default_queue(executor->device());
  if (in_another_context(from, *executor, copy_queue)) {
    if (!to_host) {
      return transfer(staged_on_host(from, target, kTwoContexts, drivers, wait, log), target, kind, queue, drivers,
                      wait);
    }
    copy_queue = *from.queue;
  }
  const bool on_other_queue = queue != nullptr && copy_queue != *queue;
  Tensor made =
      copy(without_foreign_work(from, *executor, drivers, wait), to, kind.value_or(array::kind_of(target.type)),
           executor, copy_queue, from_host ? nullptr : drivers.context(from.device));
  if (made.data == nullptr) made.device = target;  // a tensor without memory still names its target device
  // Without a queue, the caller may read the result, or change the source, as soon as this returns. With a queue, the
  // caller continues on that queue, even if another one had to make the copy.
  const bool complete_on_return =
      on_other_queue || (queue == nullptr && (from_host || to_host || from.host_accessible()));
  if (!complete_on_return && !is_on_foreign_queue(from, *executor)) return made;
  wait_for(made, drivers, wait);
  return complete_on_return && in_host_memory(made) ? without_event(std::move(made)) : made;
}

Tensor on_host(const Tensor& from, const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  const bool shared = from.host_accessible() && (!from.mask || from.mask->host_accessible());
  if (!shared) return transfer(from, Device{}, {}, nullptr, drivers, wait, log);
  Tensor here = from;
  if (here.mask) here.mask = std::make_shared<const Tensor>(on_host(*here.mask, drivers, wait, log));
  wait_for(here, drivers, wait);
  forget_work(&here);
  here.device = {};
  here.kind = MemoryKind::kHost;
  return here;
}

Tensor transfer_into(const Tensor& to, const Tensor& from, const Queue* queue, const DriverRegistry& drivers,
                     const WaitFunction& wait, const LogCallback& log) {
  const ContextPtr executor = executor_of(to.device, from.device, queue, drivers);
  if (in_host_memory(to) && in_host_memory(from)) {
    wait_for(from, drivers, wait);
    wait_for(to, drivers, wait);
    return copy_into(to, from, executor, executor->make_queue());
  }
  const Queue first_choice = [&] {
    if (queue != nullptr) return *queue;
    for (const Tensor* one : {&to, &from}) {
      if (one->queue && one->queue->device() == executor->device() && one->queue->usable_here()) return *one->queue;
    }
    return drivers.default_queue(executor->device());
  }();
  Queue copy_queue = first_choice;
  if (in_another_context(to, *executor, copy_queue)) copy_queue = *to.queue;
  if (!in_host_memory(from) && !in_host_memory(to)) {
    const bool foreign = of_two_drivers(from, *executor, drivers);
    if (foreign || in_another_context(from, *executor, copy_queue)) {
      const char* const why = foreign ? kTwoDrivers : kTwoContexts;
      return transfer_into(to, staged_on_host(from, to.device, why, drivers, wait, log), queue, drivers, wait);
    }
  }
  if (in_another_context(from, *executor, copy_queue)) copy_queue = *from.queue;
  Tensor made = copy_into(without_foreign_work(to, *executor, drivers, wait),
                          without_foreign_work(from, *executor, drivers, wait), executor, copy_queue,
                          in_host_memory(from) ? nullptr : drivers.context(from.device));
  // A caller that names a queue continues on it, even if another one had to make the copy.
  const bool goes_on =
      copy_queue == first_choice && (queue != nullptr || !(from.host_accessible() || to.host_accessible()));
  if (goes_on && !is_on_foreign_queue(from, *executor) && !is_on_foreign_queue(to, *executor)) return made;
  try {
    wait_for(made, drivers, wait);
  } catch (...) {
    // Only this call has the event, and the caller may use the memory as soon as this returns.
    if (to.host_accessible()) wait_for(made, drivers, wait_in_driver);
    throw;
  }
  return in_host_memory(to) ? without_event(std::move(made)) : made;
}

}  // namespace crossdock::exchange
