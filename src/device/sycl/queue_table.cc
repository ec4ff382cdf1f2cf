#include "queue_table.h"

#include <utility>

#include "crossdock/core/error.h"
#include "sycl_library.h"

namespace crossdock::device::sycl {

SyclQueue::~SyclQueue() {
  if (library == nullptr || library->in_child()) return;
  library->queues().remove(*this);
  if (native != nullptr) library->queues().retire(library->api(), native);
}

Queue SyclQueue::queue(std::shared_ptr<void> owner) const {
  std::shared_ptr<const SyclQueue> self = shared_from_this();
  if (owner == nullptr)
    return {device, NativeQueue(native), std::const_pointer_cast<SyclQueue>(std::move(self)),
            NativeContext(native_context)};
  using Both = std::pair<std::shared_ptr<const SyclQueue>, std::shared_ptr<void>>;
  return {device, NativeQueue(native), std::make_shared<Both>(std::move(self), std::move(owner)),
          NativeContext(native_context)};
}

std::shared_ptr<SyclQueue> QueueTable::find_equal(const Api& api, QueueRef queue, std::size_t hash) const {
  for (auto [entry, end] = by_hash_.equal_range(hash); entry != end; ++entry) {
    if (!api.queue_equal(entry->second->native, queue)) continue;
    // Null for an entry whose last holder has just dropped it.
    if (auto alive = entry->second->weak_from_this().lock()) return alive;
  }
  return nullptr;
}

std::shared_ptr<SyclQueue> QueueTable::wrap(const std::shared_ptr<SyclLibrary>& library, void* native) {
  const Api& api = library->api();
  auto* const given = static_cast<QueueRef>(native);
  const std::size_t hash = api.queue_hash(given);
  {
    const std::shared_lock lock(mutex_);
    if (auto known = find_equal(api, given, hash)) return known;
  }
  auto entry = std::make_shared<SyclQueue>();
  entry->hash = hash;
  entry->context = library->share_context(library->check(api.queue_context(given), "asking a queue for its context"));
  entry->native_device = library->share(library->check(api.queue_device(given), "asking a queue for its device"));
  const int number = library->number_of(entry->native_device.get());
  entry->device = {.type = DeviceType::kOneApi, .id = number};
  if (entry->context != library->default_context(number)) entry->native_context = entry->context.get();
  entry->in_order = api.queue_is_in_order(given);
  entry->profiling = api.queue_has_profiling(given);
  DeviceRef whole = library->devices()[static_cast<std::size_t>(number)].get();
  entry->sub_device = !api.device_equal(entry->native_device.get(), whole);
  entry->native = library->check(api.queue_copy(given), "copying a queue").release();
  entry->library = library;

  std::shared_ptr<SyclQueue> meanwhile;
  {
    const std::lock_guard lock(mutex_);
    meanwhile = find_equal(api, given, hash);
    if (meanwhile == nullptr) {
      by_native_.emplace(entry->native, entry.get());
      by_hash_.emplace(hash, entry.get());
    }
  }
  return meanwhile != nullptr ? meanwhile : entry;
}

std::shared_ptr<SyclQueue> QueueTable::wrap_theirs(const std::shared_ptr<SyclLibrary>& library, void* native) {
  if (native == nullptr) throw InvalidArgumentError("the sycl driver was given a null sycl::queue");
  auto entry = wrap(library, native);
  if (!entry->noted.exchange(true, std::memory_order_relaxed)) note_wrapped(entry);
  return entry;
}

void QueueTable::note_wrapped(std::shared_ptr<SyclQueue> queue) noexcept {
  {
    const std::lock_guard lock(wrapped_mutex_);
    if (closed_) return;
    wrapped_lately_[next_wrapped_].swap(queue);
    next_wrapped_ = (next_wrapped_ + 1) % wrapped_lately_.size();
  }
  // The queue that it replaces is dropped after the lock, since a queue removes itself from this table as it ends.
  if (queue != nullptr) queue->noted.store(false, std::memory_order_relaxed);
}

void QueueTable::close() noexcept {
  decltype(wrapped_lately_) held;
  {
    const std::lock_guard lock(wrapped_mutex_);
    closed_ = true;
    held.swap(wrapped_lately_);
  }
}

const SyclQueue& QueueTable::find(const Queue& queue) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_native_.find(queue.native());
  if (found == by_native_.end() || found->second->device != queue.device()) {
    throw InvalidArgumentError("the sycl driver was given a queue that it has neither made nor wrapped");
  }
  return *found->second;
}

std::vector<std::shared_ptr<SyclQueue>> QueueTable::all() const {
  std::vector<std::shared_ptr<SyclQueue>> all;
  const std::shared_lock lock(mutex_);
  all.reserve(by_native_.size());
  for (const auto& [native, queue] : by_native_) {
    if (auto alive = queue->weak_from_this().lock()) all.push_back(std::move(alive));
  }
  return all;
}

void QueueTable::retire(const Api& api, QueueRef queue) noexcept {
  QueueRef oldest = nullptr;
  {
    const std::lock_guard lock(mutex_);
    oldest = std::exchange(retired_[next_retired_], queue);
    next_retired_ = (next_retired_ + 1) % retired_.size();
  }
  if (oldest != nullptr) api.queue_delete(oldest);
}

void QueueTable::remove(const SyclQueue& queue) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_native_.find(queue.native); found != by_native_.end() && found->second == &queue) {
    by_native_.erase(found);
  }
  for (auto [entry, end] = by_hash_.equal_range(queue.hash); entry != end; ++entry) {
    if (entry->second != &queue) continue;
    by_hash_.erase(entry);
    return;
  }
}

}  // namespace crossdock::device::sycl
