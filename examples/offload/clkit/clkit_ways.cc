// The five ways of the offloading text in C++, on the device that a filter string names (the first CPU that SYCL has).
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/offload/placement.h"
#include "crossdock/offload/queue_manager.h"
#include "kernels.h"

namespace xd = crossdock;
using xd::array::Tensor;
using xd::device::Queue;
using xd::offload::QueueManager;

namespace {

/// Way 5: an object that holds its queue.
class Engine {
 public:
  Engine(clkit::Kernels& kernels, Queue queue) : kernels_(kernels), queue_(std::move(queue)) {}
  Tensor gemm(const Tensor& a, const Tensor& b) { return kernels_.gemm(queue_, a, b); }

 private:
  clkit::Kernels& kernels_;
  Queue queue_;
};

double last_of(const Tensor& array, const xd::device::DriverRegistry& drivers) {
  const auto host = drivers.context({});
  const auto executor = drivers.context(array.device);
  Tensor here = xd::exchange::copy(array, {host, xd::device::MemoryKind::kHost, executor, *array.queue});
  xd::exchange::wait_ready(&here, *executor);
  return static_cast<const double*>(here.data)[here.size() - 1];
}

}  // namespace

int main(int argc, char** argv) try {
  const auto drivers = xd::device::make_default_registry();
  const auto queues = std::make_shared<const xd::offload::Queues>(drivers);
  const Queue queue = queues->queue(argc > 1 ? argv[1] : "sycl:cpu");
  clkit::Kernels kernels(drivers);
  const Tensor a = kernels.numbers(queue, 50, 10);
  const Tensor b = kernels.numbers(queue, 10, 30);
  double expected = 0;
  for (int i = 0; i < 10; ++i) expected += (49.0 * 10 + i) * (i * 30.0 + 29);

  QueueManager manager(queues);  // one for the program (way 4)
  QueueManager package(queues);  // one of the package's own (way 2)
  package.set_default_queue(queue);
  Engine engine(kernels, queue);
  const std::vector<const Tensor*> both{&a, &b};
  const std::vector<std::pair<std::string, std::function<Tensor()>>> ways = {
      {"1, a queue for each call", [&] { return kernels.gemm(queue, a, b); }},
      {"2, the package's queue", [&] { return kernels.gemm(package.current(), a, b); }},
      {"3, compute follows data",
       [&] { return kernels.gemm(*xd::offload::placement(both, std::nullopt, *drivers).queue, a, b); }},
      {"4, the current queue",
       [&] {
         const QueueManager::Scope scope(manager, queue);
         return kernels.gemm(manager.current(), a, b);
       }},
      {"5, an object's queue", [&] { return engine.gemm(a, b); }},
  };
  bool right = true;
  for (const auto& [name, way] : ways) {
    const Tensor c = way();
    const bool is = c.queue == queue && last_of(c, *drivers) == expected;
    std::cout << "way " << name << ": " << (is ? "right" : "WRONG") << "\n";
    right = right && is;
  }
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return EXIT_FAILURE;
}
