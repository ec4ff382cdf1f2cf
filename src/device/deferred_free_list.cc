#include "deferred_free_list.h"

#include <new>
#include <utility>

namespace crossdock::device {

DeferredFreeList::~DeferredFreeList() {
  // In a forked child doesn't wait: the parent's work goes on, and the parent keeps the memory that it needs.
  const bool wait = !watch_.in_child();
  while (lines_ != nullptr) {
    for (const Entry* entry = lines_->first.get(); wait && entry != nullptr; entry = entry->next.get()) {
      watch_.wait(entry->done);
    }
    drop(std::move(lines_->first));
    lines_ = std::move(lines_->next);
  }
}

void DeferredFreeList::drop(std::unique_ptr<Entry> entries) noexcept {
  while (entries != nullptr) entries = std::move(entries->next);  // one by one: a long list would recurse
}

void DeferredFreeList::add(std::shared_ptr<void> owner, Event done, const Queue& queue) {
  std::unique_ptr<Entry> entry(new (std::nothrow) Entry);
  std::unique_ptr<Line> line(new (std::nothrow) Line);
  if (entry == nullptr || line == nullptr) return watch_.wait(done);
  entry->done = std::move(done);
  entry->owner = std::move(owner);
  Entry* const added = entry.get();
  const std::lock_guard lock(mutex_);
  Line* found = lines_.get();
  while (found != nullptr && found->queue != queue.native()) found = found->next.get();
  if (found != nullptr) {
    found->last->next = std::move(entry);
    found->last = added;
  } else {
    line->queue = queue.native();
    line->first = std::move(entry);
    line->last = added;
    line->next = std::move(lines_);
    lines_ = std::move(line);
  }
  any_.store(true, std::memory_order_release);
}

void DeferredFreeList::take_over(Line* line, std::unique_ptr<Entry>* over) const noexcept {
  while (line->first != nullptr && watch_.over(line->first->done)) {
    std::unique_ptr<Entry> entry = std::move(line->first);
    line->first = std::move(entry->next);
    entry->next = std::move(*over);
    *over = std::move(entry);
  }
}

void DeferredFreeList::put_back(std::unique_ptr<Line> lines) noexcept {
  while (lines != nullptr) {
    std::unique_ptr<Line> line = std::move(lines);
    lines = std::move(line->next);
    if (line->first == nullptr) continue;
    Line* meanwhile = lines_.get();
    while (meanwhile != nullptr && meanwhile->queue != line->queue) meanwhile = meanwhile->next.get();
    if (meanwhile != nullptr) {
      line->last->next = std::move(meanwhile->first);
      meanwhile->first = std::move(line->first);
    } else {
      line->next = std::move(lines_);
      lines_ = std::move(line);
    }
  }
}

void DeferredFreeList::reclaim() noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  std::unique_ptr<Line> lines;
  {
    const std::lock_guard lock(mutex_);
    if (reclaiming_) return;
    reclaiming_ = true;
    lines = std::move(lines_);
  }
  std::unique_ptr<Entry> over;
  for (Line* line = lines.get(); line != nullptr; line = line->next.get()) take_over(line, &over);
  {
    const std::lock_guard lock(mutex_);
    put_back(std::move(lines));
    any_.store(lines_ != nullptr, std::memory_order_release);
    reclaiming_ = false;
  }
  // Outside the lock: a deleter may call this context.
  drop(std::move(over));
}

}  // namespace crossdock::device
