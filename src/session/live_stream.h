#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "crossdock/array/stream.h"
#include "session/region_pool.h"
#include "session/server_stream.h"
#include "session/waker.h"

namespace crossdock::session {

/// The source's side of a live stream: a thread that calls the producer, copies each batch into recycled memory, and
/// queues it. What goes by value isn't copied: it stays where it is until it is sent. Lives until both the thread and
/// the connection are done with it.
class Puller : public std::enable_shared_from_this<Puller> {
 public:
  using Make = std::function<std::unique_ptr<array::BatchStream>()>;

  struct Message {
    std::vector<std::byte> metadata;
    bool has_body = false;
    std::vector<dissociated::RemoteBuffer> buffers;
    RegionPool::Block block;
    std::int64_t rows = 0;
    std::uint64_t bytes = 0;
    bool by_value = false;
    std::vector<ByteSpan> parts;  ///< By value: the packed body, in memory that `keep` holds.
    std::shared_ptr<const void> keep;
  };

  /// `by_value`: no memory is shared with the consumer, so nothing is copied into any.
  static std::shared_ptr<Puller> start(Make make, std::uint64_t lease_limit, std::size_t queue_limit,
                                       std::shared_ptr<Waker> waker, bool by_value = false);
  Puller(const Puller&) = delete;
  Puller& operator=(const Puller&) = delete;
  ~Puller();

  /// Tells the thread to end after the producer's call that it is in. Doesn't wait.
  void stop() noexcept;
  bool finished() const noexcept { return finished_.load(std::memory_order_acquire); }
  /// The connection is done with it, and keeps nothing that went by value: stop(), and the memory goes as soon as the
  /// thread has ended.
  void abandon() noexcept;
  /// Whether the caller is the producer itself, on the thread that join() would wait for.
  bool on_its_thread() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
  /// Waits for finished(), but not longer than this.
  bool wait_finished(std::chrono::milliseconds limit);
  /// Waits for the thread. The producer may need the GIL meanwhile: the caller must not hold it.
  void join();

  // For the I/O thread:
  /// The front message, or null. It stays until pop().
  const Message* front();
  /// Once, for a front message that goes by value: what keeps it.
  std::shared_ptr<const void> take_keep();
  void pop();
  /// With an empty queue: was the source taken to its end? Throws its error; ClosedError if it was stopped before.
  bool ended();
  RegionPool& pool() noexcept { return pool_; }
  std::uint64_t bytes_copied() const noexcept { return bytes_copied_.load(std::memory_order_relaxed); }

 private:
  Puller(Make make, std::uint64_t lease_limit, std::size_t queue_limit, std::shared_ptr<Waker> waker, bool by_value);
  void run() noexcept;
  bool pull();
  bool push(Message message);
  bool place(const array::RecordBatch& batch, std::uint64_t kept, Message* message);
  bool hold(const array::RecordBatch& batch, std::uint64_t size, Message* message);
  void bury(std::unique_ptr<array::RecordBatch> batch, std::uint64_t size) noexcept;
  void drop_buried(bool all);

  Make make_;
  std::shared_ptr<Waker> waker_;
  RegionPool pool_;
  const std::size_t queue_limit_;
  const std::uint64_t held_limit_;
  const bool by_value_;

  std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Message> queue_;
  std::uint64_t held_ = 0;  // bytes of batches that go by value and aren't sent yet
  std::size_t n_held_ = 0;
  std::vector<std::unique_ptr<array::RecordBatch>>
      buried_;  // sent; dropped on the source's thread, which may wait for a GIL
  std::atomic<std::size_t> queued_{0};
  bool stopped_ = false;
  bool ended_ = false;
  bool abandoned_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> finished_{false};
  std::atomic<std::uint64_t> bytes_copied_{0};
  std::thread thread_;
};

/// The connection's side: hands messages out and takes their memory back. I/O thread only.
class LiveStream final : public ServerStream {
 public:
  explicit LiveStream(std::shared_ptr<Puller> puller) : puller_(std::move(puller)) {}
  ~LiveStream() override { puller_->abandon(); }

  State peek(Outgoing* out) override;
  void pop() override;
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override;
  void returned(std::uint32_t slot) noexcept override;
  void over() noexcept override;
  void pass_by_value() noexcept override { puller_->pool().pass_by_value(); }

 private:
  struct Slot {
    RegionPool::Block block;
    std::uint32_t out = 0;
  };
  std::shared_ptr<Puller> puller_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t current_ = 0;
  bool has_current_ = false;
  bool current_by_value_ = false;
  mutable std::vector<std::shared_ptr<const device::Region>> regions_;
};

}  // namespace crossdock::session
