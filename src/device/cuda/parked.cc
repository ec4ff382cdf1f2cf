#include "parked.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "current.h"

namespace crossdock::device::cuda {

Parked::~Parked() {
  CudaLibrary& library = hold_->library();
  if (library.in_child()) return;  // the parent's work goes on, and with it what it needs
  const Current current(library, hold_->native());
  for (Entry& entry : entries_) {
    hold_->api().event_synchronize(entry.done);
    hold_->api().event_destroy(entry.done);
    entry.owner.reset();
  }
}

void Parked::park(std::shared_ptr<void> owner, CUstream stream) {
  const Api& api = hold_->api();
  CUevent done = nullptr;
  if (api.event_create(&done, kEventDisableTiming) != kSuccess) {
    api.stream_synchronize(stream);
    return;
  }
  if (api.event_record(done, stream) != kSuccess) {
    // The stream takes nothing more: it is broken, or not one of this context, and what runs on it will say so.
    api.event_destroy(done);
    api.stream_synchronize(stream);
    return;
  }
  const std::lock_guard lock(mutex_);
  try {
    entries_.reserve(entries_.size() + 1);
  } catch (const std::bad_alloc&) {
    api.event_synchronize(done);
    api.event_destroy(done);
    return;
  }
  entries_.push_back({done, std::move(owner)});
  count_.store(entries_.size(), std::memory_order_release);
}

void Parked::sweep() noexcept {
  if (count_.load(std::memory_order_acquire) == 0) return;
  std::vector<Entry> done;
  {
    const std::lock_guard lock(mutex_);
    const auto pending = [this](const Entry& entry) { return hold_->api().event_query(entry.done) == kNotReady; };
    const auto first_done = std::partition(entries_.begin(), entries_.end(), pending);
    done.assign(std::make_move_iterator(first_done), std::make_move_iterator(entries_.end()));
    entries_.erase(first_done, entries_.end());
    count_.store(entries_.size(), std::memory_order_release);
  }
  // Outside the lock: a deleter may call this context.
  for (Entry& entry : done) {
    hold_->api().event_destroy(entry.done);
    entry.owner.reset();
  }
}

}  // namespace crossdock::device::cuda
