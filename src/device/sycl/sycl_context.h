#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "crossdock/device/driver.h"
#include "device/internal/deferred_free_list.h"
#include "sycl_library.h"

namespace crossdock::device::sycl {

class SyclContext final : public Context {
 public:
  /// Makes a context of the root device `number`. `context` is for the queues made here; `native_device` is the device,
  /// or the part of it that is in this context.
  SyclContext(std::shared_ptr<SyclLibrary> library, int number, std::shared_ptr<OpaqueContext> context,
              Owned<OpaqueDevice> native_device);
  /// Waits for the work after which memory is to be freed. Leaks the memory if it can't.
  ~SyclContext() override;
  SyclContext(const SyclContext&) = delete;
  SyclContext& operator=(const SyclContext&) = delete;

  std::string_view driver_name() const noexcept override { return "sycl"; }
  Device device() const noexcept override { return device_; }
  NativeContext native_context() const noexcept override {
    return NativeContext(context_ == default_context_ ? nullptr : context_.get());
  }

  // sycl_memory.cc
  Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) override;
  Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) override;
  void free(Buffer&& buffer, const Queue& queue) override;
  void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  Event copy_recorded(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  PointerInfo describe(const void* pointer) const override;
  bool accessible(const BufferRef& memory, const Queue& queue) const override;

  // sycl_context.cc
  Queue make_queue() override;
  Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner) override;
  bool in_order(const Queue& queue) const override { return look_up(queue).in_order; }
  void order_after(const Queue& queue, const Event& event) override;
  Event wrap_event(NativeEvent native, std::shared_ptr<void> owner) override;
  Event record(const Queue& queue) override;
  bool query(const Event& event) override;
  void wait(const Event& event) override;

 private:
  /// Memory that is to be freed after the work of a queue, and was dropped by a thread that may not call the queue.
  struct Freed {
    std::shared_ptr<void> owner;
    std::shared_ptr<const SyclQueue> on;
  };

  /// The queues of freed memory that are marked. To mark an out-of-order queue is to wait for it.
  enum class Marks : std::uint8_t { kWithoutWaiting, kOfAllQueues };

  const Api& api() const noexcept { return library_->api(); }
  /// Returns the entry of a verb's queue. Throws ForkError, InvalidArgumentError.
  const SyclQueue& look_up(const Queue& queue) const;
  void check_memory(const BufferRef& memory, const char* what) const;
  /// Throws UnsupportedError for memory that the queue's context can't reach.
  void check_reach(const SyclQueue& queue, const BufferRef& memory) const;
  /// Starts a copy after all work that is on the queue, and returns its event; null for a copy of no bytes.
  Owned<OpaqueEvent> start_copy(const SyclQueue& on, const BufferRef& to, const BufferRef& from);
  /// Returns the owner of memory that was allocated in `context`, which frees it there. Frees it on failure of this
  /// call, too.
  std::shared_ptr<void> own_memory(std::shared_ptr<OpaqueContext> context, void* memory, std::uint64_t size) const;
  /// Fills `info` if the pointer is memory of this context.
  bool describe_in(ContextRef context, const Device& device, const void* pointer, PointerInfo& info) const;
  /// Waits in the calling thread for all work that is on an out-of-order queue, so that what is submitted next comes
  /// after it. Nothing else works for such queues: the event of a barrier may be over before work that the run time
  /// hasn't submitted yet (oneMKL's host tasks, for example). An in-order queue needs nothing.
  void wait_if_out_of_order(const SyclQueue& on) const;
  /// Waits for the event alone. Throws the error of its work.
  void wait_for(const Event& event);
  /// Makes an event after all work that is on the queue. Waits for that work if the queue is out of order.
  Event mark(const SyclQueue& on) const;
  /// Makes memory that was passed to free() wait for the work that is on its queue now. Called by the verbs
  /// that a program calls explicitly, and so not by free(), which may run in a destructor. With kWithoutWaiting, memory
  /// of an out-of-order queue is left for a later call, unless it is `used`, a queue that the verb waits for anyway.
  void flush_frees(Marks which, const SyclQueue* used = nullptr) noexcept;
  /// Keeps memory whose queue took no mark, for the next call of flush_frees().
  void keep_freed(std::vector<Freed> freed) noexcept;
  /// Waits until the event is over. Returns its failure; null if there is none.
  static std::shared_ptr<const Error> finish(const Api& api, EventRef event);
  static DeferredFreeList::Watch watch(const std::shared_ptr<SyclLibrary>& library);

  std::shared_ptr<SyclLibrary> library_;
  Device device_;
  std::int64_t device_count_ = 0;
  std::shared_ptr<OpaqueContext> default_context_;
  std::shared_ptr<OpaqueContext> context_;
  Owned<OpaqueDevice> native_device_;
  DeferredFreeList deferred_;

  std::atomic<bool> any_freed_{false};
  std::mutex freed_mutex_;
  std::vector<Freed> freed_;
};

}  // namespace crossdock::device::sycl
