#include "allocation.h"

#include <utility>

#include "current.h"

namespace crossdock::device::cuda {

namespace {

/// The deleter of an allocation's owner. Allocation::of() knows it by its type, which tells our memory from adopted
/// memory.
struct DropAllocation {
  Allocation* allocation;
  void operator()(void*) const noexcept { delete allocation; }
};

}  // namespace

Allocation::Allocation(std::shared_ptr<ContextHold> hold, Source source, CUdeviceptr pointer,
                       CUevent allocated) noexcept
    : hold_(std::move(hold)), source_(source), pointer_(pointer), allocated_(allocated) {}

Allocation::~Allocation() {
  CudaLibrary& library = hold_->library();
  if (library.in_child()) return;
  if (source_ == Source::kExportable) library.exports().remove(pointer_);
  const Current current(*hold_);
  if (current.result() == kSuccess) free();
}

// Ignores failures: a call fails here only if the context is destroyed or broken, and its memory with it.
void Allocation::free() noexcept {
  const Api& api = hold_->api();
  switch (source_) {
    case Source::kPool: free_to_pool(); break;
    case Source::kDevice:
    case Source::kExportable:
    case Source::kManaged: api.mem_free(pointer_); break;
    case Source::kPinned: api.mem_free_host(to_pointer(pointer_)); break;
    case Source::kImported: api.ipc_close_mem_handle(pointer_); break;
  }
}

void Allocation::free_to_pool() noexcept {
  const Api& api = hold_->api();
  const CUstream stream = queue_ ? queue_->native() : hold_->reclaiming();
  // The pool must not reuse the memory before this allocation was reached in its own stream.
  const bool ordered = stream != nullptr && api.stream_wait_event(stream, allocated_, 0) == kSuccess &&
                       api.mem_free_async(pointer_, stream) == kSuccess;
  // Without an order, waits for all work, also that of a stream that was destroyed.
  if (!ordered && api.ctx_synchronize() == kSuccess) api.mem_free(pointer_);
  api.event_destroy(allocated_);
}

std::shared_ptr<void> Allocation::owner(std::unique_ptr<Allocation> allocation) {
  void* memory = to_pointer(allocation->pointer_);
  Allocation* taken = allocation.release();  // if the shared_ptr can't be made, its constructor runs the deleter
  return {memory, DropAllocation{taken}};
}

Allocation* Allocation::of(const std::shared_ptr<void>& owner) noexcept {
  const DropAllocation* drop = std::get_deleter<DropAllocation>(owner);
  return drop != nullptr ? drop->allocation : nullptr;
}

}  // namespace crossdock::device::cuda
