// What it costs to read which queue is current in C++, and to make one current for a scope: nanoseconds, as JSON.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "crossdock/device/registry.h"
#include "crossdock/offload/queue_manager.h"

namespace {

using crossdock::offload::QueueManager;

template <class Call>
double nanoseconds(std::int64_t calls, Call call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(calls);
}

}  // namespace

int main() {
  constexpr std::int64_t kCalls = 1'000'000;
  const auto queues = std::make_shared<const crossdock::offload::Queues>(crossdock::device::make_default_registry());
  QueueManager manager(queues);
  const crossdock::device::Queue queue = queues->queue("host");
  manager.set_default_queue(queue);
  std::uintptr_t seen = 0;
  const auto read = [&] { seen += reinterpret_cast<std::uintptr_t>(manager.current().native()); };
  const double unset = nanoseconds(kCalls, read);
  double inside = 0;
  {
    const QueueManager::Scope scope(manager, queue);
    inside = nanoseconds(kCalls, read);
  }
  const double entered = nanoseconds(kCalls, [&] { const QueueManager::Scope scope(manager, queue); });
  std::printf("{\"read_default\": %.2f, \"read_in_scope\": %.2f, \"scope\": %.2f, \"seen\": %d}\n", unset, inside,
              entered, seen == 0 ? 1 : 0);
}
