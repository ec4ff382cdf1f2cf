#pragma once

#include <cstddef>
#include <memory>

#include "context.h"

namespace crossdock::transport::ucx {

/// A worker of UCX, owned. Use it from one thread at a time, except for signal(). In a forked child, call nothing; the
/// destructor then leaves UCX's objects alone.
class WorkerHandle {
 public:
  /// Throws ForkError, and what UCX's calls throw.
  explicit WorkerHandle(std::shared_ptr<const UcxContext> context);
  WorkerHandle(const WorkerHandle&) = delete;
  WorkerHandle& operator=(const WorkerHandle&) = delete;
  /// Ends all operations, without their call-backs: memory that they use must live until then.
  ~WorkerHandle();

  ucp_worker_h get() const noexcept { return worker_; }
  const UcxContext& context() const noexcept { return *context_; }
  const UcxLibrary& library() const noexcept { return context_->library(); }
  const Api& api() const noexcept { return context_->api(); }

  /// Sets the call-back for active messages with this id. Throws what UCX's call throws.
  void handle_messages(unsigned id, ucp_am_recv_callback_t callback, void* arg);

  /// The longest header of an active message that this worker can send, in bytes.
  std::size_t max_header() const noexcept { return max_header_; }

  /// Readable when there is something to do, once arm() has returned true.
  int descriptor() const noexcept { return descriptor_; }
  /// Does some of UCX's work, and calls its call-backs. Returns whether there was any work.
  bool progress() noexcept { return api().worker_progress(worker_) != 0; }
  /// Makes descriptor() readable at the next event. Returns false if there is work already: call progress() first.
  bool arm();
  /// Makes descriptor() readable. May be called by any thread.
  void signal() const noexcept { api().worker_signal(worker_); }

 private:
  const std::shared_ptr<const UcxContext> context_;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  std::size_t max_header_ = 0;
};

}  // namespace crossdock::transport::ucx
