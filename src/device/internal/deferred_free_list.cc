#include "device/internal/deferred_free_list.h"

#include <new>
#include <utility>

#include "device/leak.h"

namespace crossdock::device {

DeferredFreeList::~DeferredFreeList() {
  // In a forked child doesn't wait: the parent's work goes on, and the parent keeps the memory that it needs.
  const bool wait = !watch_.in_child();
  while (queues_ != nullptr) {
    for (Entry* entry = queues_->first.get(); wait && entry != nullptr; entry = entry->next.get()) {
      if (!watch_.wait(entry->done)) leak(std::move(entry->owner));
    }
    drop(std::move(queues_->first));
    queues_ = std::move(queues_->next);
  }
}

void DeferredFreeList::drop(std::unique_ptr<Entry> entries) noexcept {
  while (entries != nullptr) entries = std::move(entries->next);  // one by one: a long list would recurse
}

void DeferredFreeList::add(std::shared_ptr<void> owner, Event done, const Queue& queue) {
  std::unique_ptr<Entry> entry(new (std::nothrow) Entry);
  std::unique_ptr<PerQueue> owners(new (std::nothrow) PerQueue);
  if (entry == nullptr || owners == nullptr) {
    if (!watch_.wait(done)) leak(std::move(owner));
    return;
  }
  entry->done = std::move(done);
  entry->owner = std::move(owner);
  Entry* const added = entry.get();
  const Key key(queue.device(), queue.native_context().get(), queue.native());
  const std::lock_guard lock(mutex_);
  PerQueue* found = queues_.get();
  while (found != nullptr && found->queue != key) found = found->next.get();
  if (found != nullptr) {
    found->last->next = std::move(entry);
    found->last = added;
  } else {
    owners->queue = key;
    owners->first = std::move(entry);
    owners->last = added;
    owners->next = std::move(queues_);
    queues_ = std::move(owners);
  }
  any_.store(true, std::memory_order_release);
}

void DeferredFreeList::take_finished(PerQueue* queue, std::unique_ptr<Entry>* finished) const noexcept {
  while (queue->first != nullptr && watch_.over(queue->first->done)) {
    std::unique_ptr<Entry> entry = std::move(queue->first);
    queue->first = std::move(entry->next);
    entry->next = std::move(*finished);
    *finished = std::move(entry);
  }
}

void DeferredFreeList::put_back(std::unique_ptr<PerQueue> queues) noexcept {
  while (queues != nullptr) {
    std::unique_ptr<PerQueue> owners = std::move(queues);
    queues = std::move(owners->next);
    if (owners->first == nullptr) continue;
    PerQueue* meanwhile = queues_.get();
    while (meanwhile != nullptr && meanwhile->queue != owners->queue) meanwhile = meanwhile->next.get();
    if (meanwhile != nullptr) {
      owners->last->next = std::move(meanwhile->first);
      meanwhile->first = std::move(owners->first);
    } else {
      owners->next = std::move(queues_);
      queues_ = std::move(owners);
    }
  }
}

void DeferredFreeList::reclaim() noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  std::unique_ptr<PerQueue> queues;
  {
    const std::lock_guard lock(mutex_);
    if (reclaiming_) return;
    reclaiming_ = true;
    queues = std::move(queues_);
  }
  std::unique_ptr<Entry> finished;
  for (PerQueue* owners = queues.get(); owners != nullptr; owners = owners->next.get())
    take_finished(owners, &finished);
  {
    const std::lock_guard lock(mutex_);
    put_back(std::move(queues));
    any_.store(queues_ != nullptr, std::memory_order_release);
    reclaiming_ = false;
  }
  // Outside the lock: a deleter may call this context.
  drop(std::move(finished));
}

}  // namespace crossdock::device
