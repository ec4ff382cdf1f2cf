#include "world.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/memfd.h"

namespace crossdock::device::sim {

namespace {

constexpr std::size_t kMostFaults = 100;
constexpr std::size_t kMostHostAccesses = 4096;
constexpr std::uint64_t kMost = std::uint64_t{1} << 46;  // a process may map 2^47 bytes
constexpr std::uint64_t kPooled = std::uint64_t{512} << 20;

std::uint64_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

const char* doing(AccessKind kind) noexcept {
  switch (kind) {
    case AccessKind::kAllocate: return "allocated";
    case AccessKind::kRead: return "reads";
    case AccessKind::kWrite: return "writes";
    case AccessKind::kFree: return "frees";
  }
  return "uses";
}

bool overlap(const Place& a, const Place& b, std::uint64_t size) noexcept {
  if (a.log != b.log) return false;
  return a.offset < b.offset ? b.offset - a.offset < size : a.offset - b.offset < size;
}

/// The clock of the work that is ordered before the release that this thread performs now for a queue; null if it
/// performs none.
thread_local const Clock* freeing = nullptr;

/// Removes and returns the failure that is due at this call; null if there is none. Counts the call down for the
/// failures that are due later.
template <typename Failures, typename Meant>
std::shared_ptr<const Error> take_due_failure(Failures& failures, Meant applies) {
  std::shared_ptr<const Error> due_failure;
  for (auto at = failures.begin(); at != failures.end();) {
    if (!applies(*at)) {
      ++at;
    } else if (at->after != 0) {
      --at->after;
      ++at;
    } else if (due_failure == nullptr) {
      due_failure = at->error;
      at = failures.erase(at);
    } else {
      ++at;  // two are due at one call: this one is for the next call
    }
  }
  return due_failure;
}

}  // namespace

void complete(Event& event, Point& point) noexcept {
  std::shared_ptr<const Error> failure = point.found();
  if (failure) event.fail(failure);
  point.finish(std::move(failure));
}

std::shared_ptr<const Error> failure_of(crossdock_sim_event& event, std::int32_t status) noexcept {
  static const ResourceError kNoMemory(
      "an event that the sim driver waited for failed; there is no memory for the reason");
  try {
    const char* text = event.last_error(&event);
    const std::string what = text != nullptr ? text : "an event that the sim driver waited for failed without a reason";
    const auto code = static_cast<ErrorCode>(-status);
    const bool known = error_name(code) != error_name(ErrorCode{});
    return std::make_shared<const Error>(known ? code : ErrorCode::kSystem, what);
  } catch (const std::bad_alloc&) {
    return {std::shared_ptr<void>(), &kNoMemory};
  }
}

// The beginning of every verb

void World::enter(SimVerb verb) {
  made_in_.check("this simulated device");
  std::shared_ptr<const Error> failure;
  {
    const std::lock_guard lock(mutex_);
    ++counters_.calls[static_cast<std::size_t>(verb)];
    failure = take_due_failure(verb_failures_[static_cast<std::size_t>(verb)], [](const Injected&) { return true; });
  }
  if (failure) throw_error(failure->code(), failure->what());
}

void World::check_device(const Device& device) const {
  const std::lock_guard lock(mutex_);
  if (device.type == DeviceType::kExtDev && device.id >= 0 && device.id < std::int64_t{options_.devices}) return;
  throw NotFoundError("the sim driver has no device sim:" + std::to_string(device.id) + " (" + to_string(device) +
                      "); it has " + std::to_string(options_.devices) + " now" +
                      (options_.devices != 0
                           ? std::string()
                           : ": tests make them, in Python by crossdock.testing.simulated_devices() or the fixture "
                             "simulated_devices, in C++ by SimDriver::set_devices()"));
}

void World::set_devices(std::uint32_t count) {
  {
    const std::lock_guard lock(mutex_);
    options_.devices = count;
  }
  devices_version_.fetch_add(1, std::memory_order_acq_rel);
  pool_->limit(count == 0 ? 0 : kPooled);
}

void World::set_delay(std::chrono::nanoseconds delay) {
  const std::lock_guard lock(mutex_);
  options_.delay = delay;
}

void World::set_memory(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  options_.memory = bytes;
}

std::uint64_t World::memory() const {
  const std::lock_guard lock(mutex_);
  return options_.memory;
}

std::uint32_t World::devices() const {
  const std::lock_guard lock(mutex_);
  return options_.devices;
}

void World::fail_next(SimVerb verb, std::uint64_t after, const Error& error) {
  auto failure = std::make_shared<const Error>(error);
  const std::lock_guard lock(mutex_);
  verb_failures_[static_cast<std::size_t>(verb)].push_back({after, std::move(failure), nullptr});
}

void World::fail_work(std::uint64_t after, const Error& error, const Timeline* timeline) {
  auto failure = std::make_shared<const Error>(error);
  const std::lock_guard lock(mutex_);
  work_failures_.push_back({after, std::move(failure), timeline});
}

SimCounters World::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::vector<std::string> World::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

void World::forget_faults() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

void World::reset() {
  const std::lock_guard lock(mutex_);
  counters_ = {.calls = {},
               .bytes_allocated = 0,
               .bytes_copied = 0,
               .live_allocations = counters_.live_allocations,
               .live_bytes = counters_.live_bytes};
  for (std::vector<Injected>& failures : verb_failures_) failures.clear();
  work_failures_.clear();
  faults_.clear();
  host_log_ = {};  // its addresses may belong to other allocations by now
}

// Memory

void World::check_room(std::uint64_t size, const Device& device) const {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(device.id);
  const std::uint64_t taken = used == used_.end() ? 0 : used->second;
  if (size <= kMost && taken <= options_.memory && size <= options_.memory - taken) return;
  throw ResourceError("the sim driver has no memory for " + std::to_string(size) + " bytes on " + to_string(device) +
                      ": " + std::to_string(taken) + " of " + std::to_string(options_.memory) + " are in use");
}

std::shared_ptr<View> World::allocate(std::uint64_t size, Device device, MemoryKind kind, bool exportable,
                                      WorkQueue& queue) {
  check_room(size, device);
  const std::uint64_t whole = align_up(size, memfd::page_size());
  std::shared_ptr<Block> block;
  UniqueFd descriptor;
  if (exportable) {
    descriptor = memfd::create(kMemoryName);
    memfd::resize(descriptor, whole, kMemoryName);
    memfd::fill_holes(descriptor, 0, whole, kMemoryName);
    memfd::seal(descriptor, kShareSeals, kMemoryName);
    block = std::make_shared<Block>(descriptor, whole, Block::Pages::kPopulated);
    fill_with_pattern(block->alias(), whole);
  } else {
    block = pool_->take(whole);
  }
  std::shared_ptr<View> view = add_view(block, size, device, kind);
  const std::lock_guard lock(mutex_);
  if (exportable) {
    const struct stat status = memfd::inspect(descriptor.get(), "memory of the sim driver");
    std::erase_if(shared_, [](const auto& known) { return known.second.expired(); });
    shared_[{status.st_dev, status.st_ino}] = block;
    view->descriptor = std::move(descriptor);
  }
  counters_.bytes_allocated += size;
  // Host memory can be used at once; device memory only by work that is ordered after this allocation.
  if (kind == MemoryKind::kDevice) {
    const std::shared_ptr<Timeline>& timeline = queue.timeline();
    block->log.add({0, whole, AccessKind::kAllocate, timeline, timeline->now()}, queue.clock);
  }
  return view;
}

std::shared_ptr<View> World::import(UniqueFd fd, std::uint64_t whole, Device device, MemoryKind kind,
                                    const std::string& where) {
  const std::uint64_t mapped = align_up(whole, memfd::page_size());
  const std::string fault = memfd::fault_of(fd, kShareSeals, mapped, where);
  if (!fault.empty()) throw ProtocolError(where + ": a memory handle of the sim driver can't be trusted: " + fault);
  const struct stat status = memfd::inspect(fd.get(), where + ": memory of the sim driver");
  std::shared_ptr<Block> block;
  {
    const std::lock_guard lock(mutex_);
    const auto known = shared_.find({status.st_dev, status.st_ino});
    if (known != shared_.end()) block = known->second.lock();  // of this process: same pages, same log
  }
  if (block == nullptr) {
    // As with a real device, opening memory costs the same whatever its size.
    block = std::make_shared<Block>(fd, mapped, Block::Pages::kAsTheyAre);
    const std::lock_guard lock(mutex_);
    shared_[{status.st_dev, status.st_ino}] = block;
  }
  return add_view(block, whole, device, kind);
}

std::shared_ptr<View> World::add_view(std::shared_ptr<Block> block, std::uint64_t size, Device device,
                                      MemoryKind kind) {
  auto view = std::make_shared<View>(std::move(block), size, device, kind, quarantine_);
  const std::lock_guard lock(mutex_);
  views_[address_of(view->address())] = view;
  used_[device.id] += size;
  ++view->block()->views;
  ++counters_.live_allocations;
  counters_.live_bytes += size;
  return view;
}

/// The deleter of an allocation's owner.
struct World::Owner {
  std::shared_ptr<World> world;
  std::shared_ptr<View> view;
  void operator()(void*) {
    world->drop(*view);
    view.reset();
  }
};

std::shared_ptr<void> World::own(std::shared_ptr<View> view) {
  std::byte* address = view->address();
  return {address, Owner{shared_from_this(), std::move(view)}};
}

void World::drop(View& view) noexcept {
  if (made_in_.in_child()) return;
  const std::lock_guard lock(mutex_);
  views_.erase(address_of(view.address()));
  used_[view.device().id] -= view.size();
  --counters_.live_allocations;
  counters_.live_bytes -= view.size();
  Block& block = *view.block();
  if (--block.views != 0 || view.freed) return;
  try {
    std::vector<const Timeline*> reported;
    for (const Access& access : block.log.all()) {
      if (access.seen() || access.kind == AccessKind::kAllocate) continue;
      if (freeing != nullptr && freeing->covers(*access.timeline, access.epoch)) continue;
      if (block.kept.covers(*access.timeline, access.epoch)) continue;
      const Timeline* timeline = access.timeline.get();
      if (std::find(reported.begin(), reported.end(), timeline) != reported.end()) continue;
      reported.push_back(timeline);
      access.timeline->fail_since(
          access.epoch, fault("memory was dropped while " + timeline->name() + " still " + doing(access.kind) +
                              " it: wait for an event recorded after the work, or free the memory on a queue that is "
                              "ordered after it"));
    }
  } catch (const std::bad_alloc&) {  // then the fault isn't reported
  }
}

std::shared_ptr<View> World::find(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  return find_locked(pointer);
}

std::shared_ptr<View> World::find_locked(const void* pointer) const {
  const std::uint64_t address = address_of(pointer);
  const auto after = views_.upper_bound(address);
  if (after == views_.begin()) return nullptr;
  std::shared_ptr<View> view = std::prev(after)->second.lock();
  return view && address - address_of(view->address()) < view->size() ? view : nullptr;
}

Place World::resolve(const BufferRef& memory, const char* what) const {
  const auto wrong = [&](const std::string& why) {
    throw InvalidArgumentError("the sim driver was given " + why + " as " + what);
  };
  const bool ours = memory.device.type == DeviceType::kExtDev;
  if (!ours && !host_readable(memory.device.type)) wrong("memory of " + to_string(memory.device));
  if (memory.data == nullptr) {
    if (memory.size != 0) wrong("a null pointer to " + std::to_string(memory.size) + " bytes");
    return {};
  }
  std::shared_ptr<View> view = find_locked(memory.data);
  if (view == nullptr) {
    if (ours && memory.size != 0) wrong("memory of " + to_string(memory.device) + " that doesn't exist, or was freed,");
    return {.bytes = static_cast<std::byte*>(memory.data),
            .view = nullptr,
            .log = &host_log_,
            .offset = address_of(memory.data)};
  }
  const std::uint64_t offset = address_of(memory.data) - address_of(view->address());
  if (view->freed) wrong("memory that was already freed on a queue");
  if (ours ? view->device() != memory.device : !view->host_visible()) {
    wrong("memory of " + to_string(view->device()) + ", which the caller describes as memory of " +
          to_string(memory.device) + ",");
  }
  if (memory.size > view->size() - offset) {
    wrong(std::to_string(memory.size) + " bytes at " + std::to_string(offset) + " of an allocation of " +
          std::to_string(view->size()));
  }
  return {.bytes = view->block()->alias() + offset, .view = view, .log = &view->block()->log, .offset = offset};
}

void World::check_memory(const BufferRef& memory, const Device& device, const char* what) const {
  const std::lock_guard lock(mutex_);
  const Place place = resolve(memory, what);
  if (place.view && place.view->device() != device) {
    throw InvalidArgumentError("the sim driver was given memory of " + to_string(place.view->device()) + " as " + what +
                               " of " + to_string(device));
  }
}

// Order

std::shared_ptr<const Error> World::fault(const std::string& text) {
  if (faults_.size() < kMostFaults) faults_.push_back(text);
  return std::make_shared<const InvalidArgumentError>(text);
}

std::shared_ptr<const Error> World::check_order(const Access& next, const AccessLog& log, const WorkQueue& queue) {
  const Access* earlier = log.conflict(next, queue.clock);
  if (earlier == nullptr) return nullptr;
  const std::string& here = queue.timeline()->name();
  const std::string& there = earlier->timeline->name();
  const std::string then =
      earlier->kind == AccessKind::kAllocate ? " was allocated on " + there : " " + there + " " + doing(earlier->kind);
  return fault(here + " " + doing(next.kind) + " memory that" + then +
               ", but isn't ordered after that work: record an event on " + there + " and order " + here +
               " after it, or wait for it");
}

std::shared_ptr<const Error> World::injected_work(const WorkQueue& queue) {
  return take_due_failure(work_failures_, [&](const Injected& failure) {
    return failure.timeline == nullptr || failure.timeline == queue.timeline().get();
  });
}

void World::protect(const Block& block) {
  // Searches all views: there are few.
  for (const auto& [address, known] : views_) {
    const std::shared_ptr<View> view = known.lock();
    if (view == nullptr || view->block().get() != &block || !view->host_visible()) continue;
    if (view->protect() && !view->is_protected) {
      view->is_protected = true;
      protected_.push_back(view);
    }
  }
}

void World::see(Point& point) {
  {
    const std::lock_guard lock(mutex_);
    point.clock().see();
    restore_host_access();
  }
  deliver(point);
}

void World::restore_host_access() {
  host_log_.prune(kMostHostAccesses);
  std::erase_if(protected_, [](const std::weak_ptr<View>& known) {
    const std::shared_ptr<View> view = known.lock();
    if (view == nullptr) return true;
    view->is_protected = view->protect();
    return !view->is_protected;
  });
}

Clock World::clock_of_all_queues() {
  Clock clock;
  std::erase_if(timelines_, [&clock](const std::weak_ptr<Timeline>& known) {
    const std::shared_ptr<Timeline> timeline = known.lock();
    if (timeline != nullptr) clock.join(timeline, timeline->recorded());
    return timeline == nullptr;
  });
  return clock;
}

std::chrono::steady_clock::time_point World::due() const {
  return options_.delay.count() <= 0 ? std::chrono::steady_clock::time_point{}
                                     : std::chrono::steady_clock::now() + options_.delay;
}

// Work

std::shared_ptr<WorkQueue> World::make_queue(const Device& device) {
  const std::lock_guard lock(mutex_);
  auto timeline = std::make_shared<Timeline>("queue " + std::to_string(++queues_made_) + " of " + to_string(device));
  timelines_.push_back(timeline);
  return std::make_shared<WorkQueue>(device, std::move(timeline));
}

void World::copy(const BufferRef& to, const BufferRef& from, const Device& device, WorkQueue& queue) {
  if (to.read_only) throw InvalidArgumentError("the sim driver was given read-only memory as the target of a copy");
  if (to.size != from.size) {
    throw InvalidArgumentError("the sim driver was asked to copy " + std::to_string(from.size) +
                               " bytes into memory of " + std::to_string(to.size) + " bytes");
  }
  Place target;
  Place source;
  bool untouched = false;
  {
    const std::lock_guard lock(mutex_);
    target = resolve(to, "the target of a copy");
    source = resolve(from, "the source of a copy");
    if (to.size == 0) return;
    if (overlap(target, source, to.size)) {
      throw InvalidArgumentError("the sim driver was asked for a copy whose source and target overlap");
    }
    const bool here =
        (target.view && target.view->device() == device) || (source.view && source.view->device() == device);
    if (!here && (target.view || source.view)) {
      throw InvalidArgumentError("the sim driver was asked for a copy on " + to_string(device) +
                                 ", but neither source nor target is memory of that device");
    }
    untouched = target.log->pending(target.offset, target.offset + to.size) == nullptr;
  }
  queue.start();
  // Fills the target with a pattern, so that a read that doesn't wait for the copy is noticed. Doesn't if earlier work
  // may still access the target.
  if (untouched && !target.view) fill_with_pattern(target.bytes, to.size);
  if (untouched && target.view && target.view->host_visible()) {
    const View::Edges parts = target.view->edges(target.offset, target.offset + to.size);
    std::byte* start = target.view->block()->alias();
    fill_with_pattern(start + parts.begin, parts.first_page - parts.begin);
    fill_with_pattern(start + parts.last_page, parts.end - parts.last_page);
  }

  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Timeline>& timeline = queue.timeline();
  const Access read{source.offset, source.offset + to.size, AccessKind::kRead, timeline, timeline->now()};
  const Access write{target.offset, target.offset + to.size, AccessKind::kWrite, timeline, timeline->now()};
  std::shared_ptr<const Error> failure = check_order(read, *source.log, queue);
  if (!failure) failure = check_order(write, *target.log, queue);
  if (const auto injected = injected_work(queue); injected && !failure) failure = injected;
  CopyWork work{.to = target.bytes,
                .from = source.bytes,
                .size = to.size,
                .keep_to = target.view ? target.view->block() : nullptr,
                .keep_from = source.view ? source.view->block() : nullptr,
                .failure = std::move(failure)};
  source.log->add(read, queue.clock);
  target.log->add(write, queue.clock);
  host_log_.prune(kMostHostAccesses);
  if (source.view) protect(*source.view->block());
  if (target.view) protect(*target.view->block());
  counters_.bytes_copied += to.size;
  queue.push({.what = std::move(work), .due = due()});
}

void World::free(Buffer&& buffer, WorkQueue& queue) {
  if (buffer.data() == nullptr) return;
  queue.start();
  const BufferRef memory = buffer.ref();
  std::shared_ptr<void> owner = buffer.release();
  const Owner* ours = std::get_deleter<Owner>(owner);
  const std::shared_ptr<View> view = ours != nullptr && owner.use_count() == 1 ? ours->view : nullptr;
  buffer = Buffer(memory, std::move(owner));
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Timeline>& timeline = queue.timeline();
  // If the end of another queue's work drops this buffer, this free is ordered after that work.
  if (freeing != nullptr) queue.clock.join(*freeing);
  if (view) queue.clock.join(view->block()->kept);
  Clock clock = queue.clock;
  clock.join(timeline, timeline->now());
  if (!view) delay_free(memory, clock);
  // The buffer is moved in last: if something here threw with the buffer in `work`, dropping it would lock the mutex
  // again.
  FreeWork work{.buffer = {}, .view = view, .clock = std::move(clock), .world = shared_from_this(), .failure = nullptr};
  // Memory that was adopted may have other owners, which know when it is freed. If it is freed here, drop() checks it.
  if (view && view->block()->views == 1) {
    const Access access{0, view->block()->size(), AccessKind::kFree, timeline, timeline->now()};
    work.failure = check_order(access, view->block()->log, queue);
  }
  Work whole{.what = std::move(work), .due = {}};
  Buffer& taken = std::get<FreeWork>(whole.what).buffer;
  taken = std::move(buffer);
  try {
    queue.push(std::move(whole));
  } catch (...) {
    buffer = std::move(taken);
    throw;
  }
  if (view) view->freed = true;
}

void World::delay_free(const BufferRef& memory, const Clock& clock) {
  if (memory.device.type != DeviceType::kExtDev) return;
  const std::uint64_t begin = address_of(memory.data);
  auto at = views_.upper_bound(begin);
  if (at != views_.begin()) --at;
  for (; at != views_.end() && at->first < begin + memory.size; ++at) {
    const std::shared_ptr<View> view = at->second.lock();
    if (view && begin < address_of(view->address()) + view->size()) view->block()->kept.join(clock);
  }
}

void World::free_now(FreeWork& work) noexcept {
  const BufferRef memory = work.buffer.ref();
  if (memory.device.type != DeviceType::kExtDev) {
    // Forgets the accesses before the buffer is dropped: after that the bytes may have another owner.
    const std::lock_guard lock(mutex_);
    try {
      host_log_.forget(address_of(memory.data), address_of(memory.data) + memory.size, work.clock);
    } catch (const std::bad_alloc&) {  // finished accesses stay in the log
    }
  }
  freeing = &work.clock;
  work.buffer = Buffer();
  freeing = nullptr;
}

std::shared_ptr<const Clock> release_clock() noexcept {
  if (freeing == nullptr) [[likely]]
    return nullptr;
  try {
    return std::make_shared<const Clock>(*freeing);
  } catch (const std::bad_alloc&) {
    return nullptr;  // a false fault may then be reported
  }
}

const Clock* set_release_clock(const Clock* clock) noexcept { return std::exchange(freeing, clock); }

void World::record(const Event& event, Signal& signal, WorkQueue& queue) {
  std::shared_ptr<Point> point;
  Event copy = event;
  {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Timeline>& timeline = queue.timeline();
    Clock clock = queue.clock;
    clock.join(timeline, timeline->now());
    point = std::make_shared<Point>(timeline, timeline->now(), std::move(clock));
    const bool idle = queue.idle();
    if (!idle) queue.push({.what = RecordWork{.event = copy, .point = point}, .due = {}});
    timeline->record(point);
    signal.set(point);
    if (!idle) return;
  }
  complete(copy, *point);
}

void World::order_after(WorkQueue& queue, const Event& event, Signal& signal) {
  const std::shared_ptr<Point>& point = signal.point();
  if (point->done() && point->failure()) deliver(*point);
  event.check();
  const std::lock_guard lock(mutex_);
  queue.clock.join(point->clock());
  if (point->done() && !point->failure()) return;
  queue.start();
  queue.push({.what = WaitWork{.event = event, .point = point, .other = nullptr}, .due = {}});
}

void World::order_after_other(WorkQueue& queue, const Event& event, crossdock_sim_event* other) {
  queue.start();
  const std::lock_guard lock(mutex_);
  queue.clock.join(clock_of_all_queues());
  queue.push({.what = WaitWork{.event = event, .point = nullptr, .other = other}, .due = {}});
}

void World::see_other() {
  const std::lock_guard lock(mutex_);
  clock_of_all_queues().see();
  restore_host_access();
}

void World::deliver(Point& point) {
  const std::shared_ptr<const Error> failure = point.failure();
  if (failure == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    point.clock().deliver(failure.get());  // the clock includes the point's own queue
  }
  throw_error(failure->code(), failure->what());
}

bool World::query(Signal& signal) {
  enter(SimVerb::kQuery);
  const std::shared_ptr<Point>& point = signal.point();
  if (!point->done()) return false;
  see(*point);
  return true;
}

void World::wait(Signal& signal) {
  enter(SimVerb::kWait);
  const std::shared_ptr<Point>& point = signal.point();
  point->wait();
  see(*point);
}

}  // namespace crossdock::device::sim
