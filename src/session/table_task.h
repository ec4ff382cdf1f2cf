#pragma once

#include <atomic>
#include <cstddef>
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

/// A table that is made on a thread of the pool when a consumer asks for it. All consumers that ask meanwhile wait for
/// the same one. Thread-safe.
class TableTask : public SourceTask {
 public:
  /// Has a thread of the pool make the table. It has a lane of its own: no consumer's sources delay it.
  void start(SourcePool& pool);
  Next step() noexcept final;
  std::shared_ptr<const void> unused() noexcept final { return nullptr; }

  /// Notifies `waker` when the schema is known, and once the table is made or has failed.
  void add_waker(const std::shared_ptr<ConnectionWaker>& waker);
  /// Returns the table; null while it is being made. Throws the error with which it failed; ResourceError if no thread
  /// can begin with it, see SourcePool::check_begins().
  std::shared_ptr<const PublishedTable> get() const;
  /// Returns the table; null if it isn't made, or has failed.
  std::shared_ptr<const PublishedTable> made() const;
  /// Returns the message of the schema, if it is known before the table is made; else null.
  std::shared_ptr<const std::vector<std::byte>> schema() const;
  bool failed() const;
  /// The longest time until get() must be called again; 0: not before the waker is notified.
  int look_again_ms() const noexcept;

 protected:
  /// Makes the table. Called once, on a thread of the pool. Throws the error that the consumers receive.
  virtual std::shared_ptr<const PublishedTable> make() = 0;
  /// For make(): has the consumers get the schema now, so that none gives up while the table is being made.
  void announce(const array::Schema& schema, std::int64_t version);

 private:
  SourcePool* pool_ = nullptr;  // outlives the server's streams
  std::atomic<bool> begun_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<std::byte>> schema_;
  std::shared_ptr<const PublishedTable> made_;
  std::exception_ptr failure_;
  std::vector<std::shared_ptr<ConnectionWaker>> waiting_;
};

/// Sends such a table to one consumer, once it is made, or what follows from it; its schema before, if that is known.
class TableTaskStream final : public ServerStream {
 public:
  /// Begins the stream that follows when the table is made, which may go by another way than was planned. May throw.
  using Begin = std::function<std::unique_ptr<ServerStream>(const std::shared_ptr<const PublishedTable>& table)>;
  /// What is sent.
  enum class Sends : std::uint8_t {
    kTable,    ///< The table: the stream that follows begins with its schema.
    kAnother,  ///< A stream with another schema.
  };

  /// `way`: the way that is planned. `begin` is called once, when the table is made.
  TableTaskStream(std::shared_ptr<TableTask> task, const std::shared_ptr<ConnectionWaker>& waker, const WayAnswer& way,
                  Begin begin, Sends sends = Sends::kTable)
      : ServerStream(way), task_(std::move(task)), begin_(std::move(begin)), sends_(sends) {
    task_->add_waker(waker);
  }

  State peek(Outgoing* out) override;
  void pop() override;
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return stream_->region(index);
  }
  bool has_begun() const noexcept override { return stream_ ? stream_->has_begun() : schema_ != nullptr; }
  int look_again_ms() const noexcept override {
    return task_ ? task_->look_again_ms() : stream_ ? stream_->look_again_ms() : 0;
  }
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
  std::unique_ptr<ServerStream> begin(const std::shared_ptr<const PublishedTable>& table);

  std::shared_ptr<TableTask> task_;  // until its table is made
  const Begin begin_;
  const Sends sends_;
  std::shared_ptr<const std::vector<std::byte>> schema_;  // that is sent, or was
  bool schema_sent_ = false;
  std::unique_ptr<ServerStream> stream_;
};

}  // namespace crossdock::session
