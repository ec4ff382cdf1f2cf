#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "allocation.h"
#include "context_hold.h"
#include "crossdock/device/driver.h"
#include "current.h"
#include "device/internal/deferred_free_list.h"
#include "device/memory_handle.h"

namespace crossdock::device::cuda {

class CudaContext final : public Context {
 public:
  /// `deferred` has what free() can't free yet, for all contexts of the library: what one leaves, others reclaim.
  CudaContext(std::shared_ptr<ContextHold> hold, std::shared_ptr<DeferredFreeList> deferred);
  /// Returns the functions that query and wait for events of record(). A query needs any context to be current.
  static DeferredFreeList::Watch watch(std::shared_ptr<CudaLibrary> library);

  std::string_view driver_name() const noexcept override { return "cuda"; }
  Device device() const noexcept override { return device_; }
  NativeContext native_context() const noexcept override { return NativeContext(hold_->native_unless_primary()); }

  /// As ContextHold::alive().
  bool alive() const noexcept { return hold_->alive(); }

  // cuda_context.cc
  Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) override;
  Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) override;
  void free(Buffer&& buffer, const Queue& queue) override;
  void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  PointerInfo describe(const void* pointer) const override;
  bool accessible(const BufferRef& memory, const Queue& queue) const override;

  // cuda_handles.cc
  std::string identity() const override;
  MemoryHandle export_memory(const BufferRef& memory) override;
  Buffer import_memory(MemoryHandle handle, const std::string& where) override;

  // cuda_queues.cc
  Queue make_queue() override;
  Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner) override;
  void order_after(const Queue& queue, const Event& event) override;
  Event wrap_event(NativeEvent native, std::shared_ptr<void> owner) override;
  Event record(const Queue& queue) override;
  bool query(const Event& event) override;
  void wait(const Event& event) override;

 private:
  /// Makes the context current for a verb, after the checks that every verb begins with.
  class Entered {
   public:
    Entered(const CudaContext& context, const char* doing);

   private:
    Current current_;
  };

  const Api& api() const noexcept { return hold_->api(); }
  CudaLibrary& library() const noexcept { return hold_->library(); }
  void check(CUresult result, const char* doing) const { library().check(result, doing); }
  void check_queue(const Queue& queue) const;
  /// Throws for an event whose query or wait had this result, and makes the event carry the failure of its work.
  void fail_event(Event event, CUresult result, const char* doing) const;
  void check_memory(const BufferRef& memory, const char* what) const;
  /// Returns the BufferRef of memory of this device.
  BufferRef memory(CUdeviceptr pointer, std::uint64_t size, MemoryKind kind) const noexcept;
  /// Returns a context in which memory can be named: this one for memory of this device, else the primary context of
  /// the memory's device.
  CUcontext context_of(const BufferRef& memory);
  /// What a call of CUDA allocated.
  struct Allocated {
    CUresult result = kSuccess;
    Allocation::Source source = Allocation::Source::kDevice;
    CUdeviceptr pointer = 0;
    CUevent event = nullptr;  ///< For kPool: recorded after the allocation.
  };
  Allocated call_allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue);
  /// Returns true if the queue has no work that isn't done. False if that can't be said.
  bool idle(const Queue& queue) const noexcept;
  /// Keeps `owner` until the work that is on `queue` now is done. Waits for that work if CUDA can't record an event.
  void defer_free(std::shared_ptr<void> owner, const Queue& queue);
  CUuuid uuid() const;
  Buffer import_own(const MemoryHandle& handle, const CUipcMemHandle& its, const std::string& where);
  Buffer map_peers(const MemoryHandle& handle, const CUipcMemHandle& its, const std::string& where);

  std::shared_ptr<ContextHold> hold_;
  Device device_;
  int device_count_ = 0;
  std::shared_ptr<DeferredFreeList> deferred_;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<ContextHold>>
      peers_;  ///< Primary contexts of devices that are copied to or from.
};

}  // namespace crossdock::device::cuda
