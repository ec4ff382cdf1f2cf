#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "session/published_table.h"
#include "session/server_stream.h"
#include "session/source_pool.h"
#include "session/waker.h"

namespace crossdock::session {

/// A copy on the host of a table that is in memory of devices, for consumers that can't open it. Made once, on a thread
/// of the pool, when a consumer first needs it. Thread-safe.
class HostCopy final : public SourceTask {
 public:
  explicit HostCopy(std::shared_ptr<const PublishedTable> table) : table_(std::move(table)) {}

  Next step() noexcept override;
  std::shared_ptr<const void> unused() noexcept override { return nullptr; }

  /// Returns the copy. If it isn't made yet, returns null, and notifies `waker` once it is, or has failed. Throws the
  /// error with which it failed.
  std::shared_ptr<const PublishedTable> get(const std::shared_ptr<ConnectionWaker>& waker);
  bool failed() const;
  std::uint64_t bytes_copied() const;

 private:
  const std::shared_ptr<const PublishedTable> table_;
  mutable std::mutex mutex_;
  std::shared_ptr<const PublishedTable> made_;
  std::exception_ptr failure_;
  std::vector<std::shared_ptr<ConnectionWaker>> waiting_;
};

/// Sends such a copy to one consumer, once it is made.
class HostCopyStream final : public ServerStream {
 public:
  HostCopyStream(std::shared_ptr<HostCopy> copy, std::shared_ptr<ConnectionWaker> waker, const WayAnswer& way)
      : ServerStream(way), copy_(std::move(copy)), waker_(std::move(waker)) {}

  State peek(Outgoing* out) override;
  void pop() override { stream_->pop(); }
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return stream_->region(index);
  }
  void returned(std::uint32_t slot) noexcept override { stream_->returned(slot); }
  void over() noexcept override {
    if (stream_) stream_->over();
  }
  bool has_dropped() const noexcept override { return stream_ && stream_->has_dropped(); }
  void take_dropped(std::vector<std::uint32_t>* regions) override { stream_->take_dropped(regions); }

 private:
  const std::shared_ptr<HostCopy> copy_;
  const std::shared_ptr<ConnectionWaker> waker_;
  std::unique_ptr<TableStream> stream_;
};

}  // namespace crossdock::session
