#include "parked.h"

#include <new>
#include <utility>

namespace crossdock::device {

Parked::~Parked() {
  // After a fork the parent's work goes on, and with it what it needs.
  if (!watch_.in_child()) {
    for (const Entry* entry = entries_.get(); entry != nullptr; entry = entry->next.get()) watch_.wait(entry->done);
  }
  drop(std::move(entries_));
}

void Parked::drop(std::unique_ptr<Entry> entries) noexcept {
  while (entries != nullptr) entries = std::move(entries->next);  // one by one: a long list would recurse
}

void Parked::park(std::shared_ptr<void> owner, Event done) {
  std::unique_ptr<Entry> entry(new (std::nothrow) Entry);
  if (entry == nullptr) return watch_.wait(done);
  entry->done = std::move(done);
  entry->owner = std::move(owner);
  const std::lock_guard lock(mutex_);
  entry->next = std::move(entries_);
  entries_ = std::move(entry);
  any_.store(true, std::memory_order_release);
}

void Parked::sweep() noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  std::unique_ptr<Entry> over;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>* place = &entries_;
    while (*place != nullptr) {
      if (!watch_.over((*place)->done)) {
        place = &(*place)->next;
        continue;
      }
      std::unique_ptr<Entry> entry = std::move(*place);
      *place = std::move(entry->next);
      entry->next = std::move(over);
      over = std::move(entry);
    }
    any_.store(entries_ != nullptr, std::memory_order_release);
  }
  // Outside the lock: a deleter may call this context.
  drop(std::move(over));
}

}  // namespace crossdock::device
