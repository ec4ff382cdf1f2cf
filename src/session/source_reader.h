#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "crossdock/array/stream.h"
#include "crossdock/session/runtime.h"
#include "exchange/batch_copy.h"
#include "ipc/metadata.h"
#include "session/consumer.h"
#include "session/dictionary_tracker.h"
#include "session/region_pool.h"
#include "session/server_stream.h"
#include "session/source_pool.h"
#include "session/waker.h"

namespace crossdock::session {

/// The source's side of a live stream, on the threads of a SourcePool. Each step calls the producer at most once,
/// copies the batch into recycled memory, and queues it. A batch that is sent by value isn't copied, unless it is on a
/// device: it stays in its memory until it is sent. If there is no room, the source waits without occupying a thread.
/// The pool owns this object until the source has ended, and the connection owns it until it no longer needs it.
class SourceReader final : public SourceTask {
 public:
  using Make = std::function<std::unique_ptr<array::BatchStream>()>;

  struct Options {
    std::shared_ptr<const Make> make;              ///< Dropped on one of the pool's threads.
    std::shared_ptr<const CountedStream> counted;  ///< Counts until the source has ended.
    std::size_t queue_limit = 64;                  ///< Messages that may wait for the connection to send them.
    bool by_value = false;  ///< No memory is shared with the consumer, so no batch is copied into shared memory.
    std::shared_ptr<ConnectionWaker> waker;
    std::shared_ptr<std::atomic<std::uint64_t>> bytes_copied;  ///< The number of copied bytes is added to this.
    std::shared_ptr<const Runtime> runtime;                    ///< Its drivers copy batches on devices.
  };
  struct Message {
    std::vector<std::byte> metadata;
    bool has_body = false;
    std::vector<dissociated::RemoteBuffer> buffers;
    RegionPool::Block block;
    std::int64_t rows = 0;
    std::uint64_t bytes = 0;
    bool by_value = false;
    std::vector<ByteSpan> parts;  ///< For sending by value: the packed body, in memory that `keep` holds.
    std::shared_ptr<const void> keep;
  };

  /// Throws the errors of SourcePool::start().
  static std::shared_ptr<SourceReader> start(Options options);
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;
  ~SourceReader() override = default;

  Next step() noexcept override;
  std::shared_ptr<const void> unused() noexcept override { return std::move(make_); }

  // For the I/O thread:
  /// Ends the source after the producer's call that is in progress, or at once if it hasn't begun, and drops the queue.
  /// Doesn't wait.
  void stop() noexcept;
  /// Calls stop(), and frees all memory, even if the consumer still holds some of it.
  void abandon() noexcept;
  /// Throws ResourceError if no thread can begin with the source: see SourcePool::check_begins().
  void check_begins() const;
  bool has_begun() const noexcept { return begun_.load(std::memory_order_relaxed); }
  int begin_limit_ms() const noexcept { return static_cast<int>(sources_.begin_limit().count()); }
  /// Returns the front message, or null. It stays the front message until pop().
  const Message* front();
  /// Moves out the owner of a front message that is sent by value. Call it once.
  std::shared_ptr<const void> take_keep();
  void pop();
  /// Requires an empty queue. Returns whether the source was read to its end. Throws the source's error, or ClosedError
  /// if it was stopped before its end.
  bool ended();
  /// Takes back the memory of a message.
  void free(const RegionPool::Block& block) noexcept;
  /// Makes batches that find no room be sent by value.
  void pass_by_value() noexcept;
  RegionPool& pool() noexcept { return pool_; }

 private:
  /// A batch or dictionary that is being prepared for the queue.
  struct Pending {
    array::RecordBatch batch;
    Message message;
    std::optional<std::int64_t> dictionary{};
    std::optional<exchange::BatchCopy>
        copy{};            ///< Instead of `batch` and metadata, until a batch on a device is copied.
    bool in_heap = false;  ///< Copied from a device to be sent by value.
    bool placed = false;
  };
  /// A batch that is sent by value. It is a list node, so that defer_release() needs no memory.
  struct ValueBatch {
    array::RecordBatch batch;
    std::uint64_t size;
    std::unique_ptr<ValueBatch> next{};
  };
  enum class Progress : std::uint8_t { kOn, kNoRoom, kEnd };

  explicit SourceReader(Options options);
  Progress advance();
  bool fetch();
  void open();
  Pending& add_pending(std::int64_t rows, std::optional<std::int64_t> dictionary);
  void encode(Pending* pending, array::RecordBatch batch);
  bool prepare_body(Pending* pending);
  void copy_from_device(Pending* pending, std::byte* memory, const std::shared_ptr<const void>& owner);
  void copy_into(Pending* pending, const std::shared_ptr<device::Region>& region);
  bool prepare_by_value(const array::RecordBatch& batch, std::uint64_t size, Message* message);
  bool push(Message* message);
  void end(std::exception_ptr failure) noexcept;
  void stop_counting() noexcept;
  void defer_release(std::unique_ptr<ValueBatch> held) noexcept;
  bool release_deferred();
  void drop_queue() noexcept;
  bool stopped();

  // Used by the source's side only:
  std::shared_ptr<const Make> make_;
  std::unique_ptr<array::BatchStream> stream_;
  ipc::Encoder encoder_;
  DictionaryTracker dictionaries_;
  std::unordered_map<std::int64_t, RegionPool::Block> kept_by_id_;  // of the current dictionaries
  RegionPool::Kept kept_;
  std::deque<Pending> pending_;
  bool over_ = false;

  const std::shared_ptr<Consumer> consumer_;
  SourcePool& sources_;  // kept alive by the consumer
  const std::shared_ptr<ConnectionWaker> waker_;
  const std::shared_ptr<std::atomic<std::uint64_t>> bytes_copied_;
  const std::shared_ptr<const Runtime> runtime_;
  const std::size_t queue_limit_;
  const bool by_value_;
  RegionPool pool_;
  std::atomic<bool> begun_{false};

  std::mutex mutex_;
  std::shared_ptr<const CountedStream> counted_;
  std::deque<Message> queue_;
  std::atomic<std::size_t> queued_{0};
  bool wants_room_ = false;               // in the queue
  std::size_t n_unsent_values_ = 0;       // batches that are sent by value and haven't been sent yet
  std::unique_ptr<ValueBatch> deferred_;  // already sent; released on the source's side, which may wait for a GIL
  // stopped_: the connection has given up the source. ended_: the source has ended, with or without failure_. over_
  // (above) is the same for the source's side, without the lock.
  bool stopped_ = false;
  bool ended_ = false;
  bool counted_as_abandoned_ = false;  // stopped after the source had begun and before it ended
  std::exception_ptr failure_;
};

}  // namespace crossdock::session
