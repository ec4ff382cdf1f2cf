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
    const device::BufferRef memory = buffer.ref();
    const std::shared_ptr<void> owner = buffer.release();
    try {
      context->free(device::Buffer(memory, owner), queue);
    } catch (const std::exception&) {
      wait_for_queue();
    }
  }
  /// Where the memory can't be handed to the queue, it is kept here until the queue is done with it.
  void wait_for_queue() noexcept {
    try {
      device::Event done = context->make_event();
      context->record(done, queue);
      context->wait(done);
    } catch (const std::exception&) {
      // The device failed or is gone: it works on nothing any more.
    }
  }
};

}  // namespace

std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           device::Queue queue) {
  return std::make_shared<const QueueOwned>(std::move(buffer), std::move(context), std::move(queue));
}

}  // namespace crossdock::exchange
