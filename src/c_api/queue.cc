#include "crossdock/c_api/queue.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/session/runtime.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace device = crossdock::device;

struct crossdock_queue {
  device::Queue queue;
  std::string filter;  ///< Of its device, with all its parts.
};

crossdock_status crossdock_queue_find(crossdock_string filter, crossdock_string name, crossdock_queue** queue,
                                      crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_queue*& out = result(queue, "queue");
    const auto& queues = *crossdock::session::Runtime::default_runtime()->queues();
    const std::string_view text = view_of(filter, "filter");
    const std::string wanted_name = text_of(name, "name");
    device::Queue found = queues.queue(text.empty() ? device::kDefaultFilter : text);
    if (!wanted_name.empty()) found = queues.queue(found.device(), wanted_name);
    std::string full = device::filter_of(queues.drivers(), found.device());
    out = new crossdock_queue{std::move(found), std::move(full)};
  });
}

void crossdock_queue_release(crossdock_queue** queue) { release(queue); }

void* crossdock_queue_native(const crossdock_queue* queue) {
  return queue != nullptr ? queue->queue.native() : nullptr;
}

void* crossdock_queue_native_context(const crossdock_queue* queue) {
  return queue != nullptr ? queue->queue.native_context().get() : nullptr;
}

ArrowDeviceType crossdock_queue_device_type(const crossdock_queue* queue) {
  return queue != nullptr ? static_cast<ArrowDeviceType>(queue->queue.device().type) : 0;
}

int64_t crossdock_queue_device_id(const crossdock_queue* queue) {
  return queue != nullptr ? queue->queue.device().id : -1;
}

const char* crossdock_queue_filter(const crossdock_queue* queue) {
  return queue != nullptr ? queue->filter.c_str() : "";
}

int32_t crossdock_queue_equal(const crossdock_queue* one, const crossdock_queue* other) {
  return one != nullptr && other != nullptr && one->queue == other->queue ? 1 : 0;
}
