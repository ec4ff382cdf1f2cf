#pragma once

#include <atomic>
#include <exception>
#include <functional>
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

  /// Has a thread of the pool make the copy. It has a lane of its own: no consumer's sources delay it.
  void start(SourcePool& pool);
  Next step() noexcept override;
  std::shared_ptr<const void> unused() noexcept override { return nullptr; }

  /// Notifies `waker` once the copy is made, or has failed.
  void add_waker(const std::shared_ptr<ConnectionWaker>& waker);
  /// Returns the copy; null while it is being made. Throws the error with which it failed; ResourceError if no thread
  /// can begin with it, see SourcePool::check_begins().
  std::shared_ptr<const PublishedTable> get() const;
  bool failed() const;
  /// The longest time until get() must be called again; 0: not before the waker is notified.
  int look_again_ms() const noexcept;
  std::uint64_t bytes_copied() const;

 private:
  std::shared_ptr<const PublishedTable> table_;  // until the copy is made
  SourcePool* pool_ = nullptr;                   // outlives the server's streams
  std::atomic<bool> begun_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const PublishedTable> made_;
  std::exception_ptr failure_;
  std::vector<std::shared_ptr<ConnectionWaker>> waiting_;
};

/// Sends such a copy to one consumer, once it is made.
class HostCopyStream final : public ServerStream {
 public:
  /// Prepares a copy for its consumer. Returns the way that it goes, which may be another one than was planned. May
  /// throw.
  using Prepare = std::function<WayAnswer(const PublishedTable& copy)>;

  /// `way`: the way that is planned. `prepare` is called once, when the copy is made.
  HostCopyStream(std::shared_ptr<HostCopy> copy, const std::shared_ptr<ConnectionWaker>& waker, const WayAnswer& way,
                 Prepare prepare)
      : ServerStream(way), copy_(std::move(copy)), prepare_(std::move(prepare)) {
    copy_->add_waker(waker);
  }

  State peek(Outgoing* out) override;
  void pop() override { stream_->pop(); }
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return stream_->region(index);
  }
  int look_again_ms() const noexcept override;
  void returned(std::uint32_t slot, std::uint32_t n) noexcept override { stream_->returned(slot, n); }
  void lost() noexcept override {
    if (stream_) stream_->lost();
  }
  void over() noexcept override {
    if (stream_) stream_->over();
  }
  bool has_dropped() const noexcept override { return stream_ && stream_->has_dropped(); }
  void take_dropped(std::vector<std::uint32_t>* regions) override { stream_->take_dropped(regions); }

 private:
  std::shared_ptr<HostCopy> copy_;  // until it is made
  const Prepare prepare_;
  std::unique_ptr<TableStream> stream_;
};

}  // namespace crossdock::session
