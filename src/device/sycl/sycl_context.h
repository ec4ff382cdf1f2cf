#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../deferred_free_list.h"
#include "crossdock/device/driver.h"
#include "sycl_library.h"

namespace crossdock::device::sycl {

class SyclContext final : public Context {
 public:
  /// Of the root device `number`. `context` is for the queues made here; `native_device` is the device, or the part of
  /// it that is in this context.
  SyclContext(std::shared_ptr<SyclLibrary> library, int number, std::shared_ptr<OpaqueContext> context,
              Owned<OpaqueDevice> native_device);
  /// Waits for the work behind which memory is to be freed.
  ~SyclContext() override;
  SyclContext(const SyclContext&) = delete;
  SyclContext& operator=(const SyclContext&) = delete;

  std::string_view driver_name() const noexcept override;
  Device device() const noexcept override { return device_; }

  // sycl_memory.cc
  Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) override;
  Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) override;
  void free(Buffer&& buffer, const Queue& queue) override;
  void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  Event copy_recorded(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  PointerInfo describe(const void* pointer) const override;
  bool accessible(const BufferRef& memory, const Queue& queue) const override;
  MemoryHandle export_memory(const BufferRef& memory) override;
  Buffer import_memory(MemoryHandle handle, const std::string& where) override;

  // sycl_context.cc
  Queue make_queue() override;
  Queue wrap_queue(void* native, std::shared_ptr<void> owner) override;
  void order_after(const Queue& queue, const Event& event) override;
  Event wrap_event(void* native, std::shared_ptr<void> owner) override;
  Event record(const Queue& queue) override;
  bool query(const Event& event) override;
  void wait(const Event& event) override;

 private:
  const Api& api() const noexcept { return library_->api(); }
  /// What a verb's queue stands for. Throws ForkError, InvalidArgumentError.
  const SyclQueue& look_up(const Queue& queue) const;
  void check_memory(const BufferRef& memory, const char* what) const;
  /// Throws UnsupportedError for memory that the queue's context can't reach.
  void check_reach(const SyclQueue& queue, const BufferRef& memory) const;
  /// The event of a copy that comes after all that is on the queue; null for one of no bytes.
  Owned<OpaqueEvent> start_copy(const SyclQueue& on, const BufferRef& to, const BufferRef& from);
  /// The owner of memory that was allocated in `context`, which frees it there. On failure of this call too.
  std::shared_ptr<void> own_memory(std::shared_ptr<OpaqueContext> context, void* memory, std::uint64_t size) const;
  /// Fills `info` if the pointer is memory of this context.
  bool describe_in(ContextRef context, const Device& device, const void* pointer, PointerInfo& info) const;
  /// An event behind all that is on the queue.
  Event mark(const SyclQueue& on) const;
  /// Has what free() was given wait for the work that is on its queue now. Called by all verbs that somebody calls on
  /// purpose.
  void flush_frees() noexcept;
  /// Waits until the event is over; what went wrong, null if nothing did.
  static std::shared_ptr<const Error> finish(const Api& api, EventRef event);
  static DeferredFreeList::Watch watch(const std::shared_ptr<SyclLibrary>& library);

  std::shared_ptr<SyclLibrary> library_;
  Device device_;
  std::int64_t device_count_ = 0;
  std::shared_ptr<OpaqueContext> default_context_;
  std::shared_ptr<OpaqueContext> context_;
  Owned<OpaqueDevice> native_device_;
  DeferredFreeList deferred_;

  /// Memory that was freed behind the work of a queue, by threads that may not ask the queue for it.
  struct Freed {
    std::shared_ptr<void> owner;
    std::shared_ptr<const SyclQueue> on;
  };
  std::atomic<bool> any_freed_{false};
  std::mutex freed_mutex_;
  std::vector<Freed> freed_;
};

}  // namespace crossdock::device::sycl
