#include "queue_owned.h"

#include <exception>
#include <utility>

namespace crossdock::exchange {
namespace {

struct QueueOwned {
  device::Buffer buffer;
  std::shared_ptr<device::Context> context;
  device::Queue queue;

  QueueOwned(device::Buffer memory, std::shared_ptr<device::Context> of, device::Queue on) noexcept
      : buffer(std::move(memory)), context(std::move(of)), queue(std::move(on)) {}
  QueueOwned(const QueueOwned&) = delete;
  QueueOwned& operator=(const QueueOwned&) = delete;
  ~QueueOwned() {
    if (buffer.data() == nullptr) return;
    try {
      context->free(std::move(buffer), queue);
    } catch (const std::exception&) {
      // The memory went with the Buffer. That is right where the device is lost, and works on nothing any more; of
      // another failure the queue may still be working on it, and the verb's contract has no way to keep it then.
    }
  }
};

}  // namespace

std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           device::Queue queue) {
  return std::make_shared<const QueueOwned>(std::move(buffer), std::move(context), std::move(queue));
}

}  // namespace crossdock::exchange
