#include "session/table_task.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "session/table_version.h"

namespace crossdock::session {

void TableTask::start(SourcePool& pool) {
  pool_ = &pool;
  pool.start(shared_from_this(), std::make_shared<SourceLane>());
}

SourceTask::Next TableTask::step() noexcept {
  begun_.store(true, std::memory_order_relaxed);
  std::shared_ptr<const PublishedTable> made;
  std::exception_ptr failure;
  try {
    made = make();
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<std::shared_ptr<ConnectionWaker>> waiting;
  {
    const std::lock_guard lock(mutex_);
    made_ = std::move(made);
    failure_ = std::move(failure);
    waiting.swap(waiting_);
  }
  for (const auto& waker : waiting) waker->notify();
  return Next::kDone;
}

void TableTask::add_waker(const std::shared_ptr<ConnectionWaker>& waker) {
  const std::lock_guard lock(mutex_);
  // A client may request and cancel many times.
  if (!made_ && !failure_ && std::ranges::find(waiting_, waker) == waiting_.end()) waiting_.push_back(waker);
}

std::shared_ptr<const PublishedTable> TableTask::get() const {
  if (!begun_.load(std::memory_order_relaxed)) pool_->check_begins(*this);
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return made_;
}

std::shared_ptr<const PublishedTable> TableTask::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

void TableTask::announce(const array::Schema& schema, std::int64_t version) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(schema_message(schema, version));
  const std::lock_guard lock(mutex_);
  schema_ = std::move(bytes);
  for (const auto& waker : waiting_) waker->notify();
}

std::shared_ptr<const std::vector<std::byte>> TableTask::schema() const {
  const std::lock_guard lock(mutex_);
  return schema_;
}

int TableTask::look_again_ms() const noexcept {
  return begun_.load(std::memory_order_relaxed) ? 0 : static_cast<int>(pool_->begin_limit().count());
}

bool TableTask::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

ServerStream::State TableTaskStream::peek(Outgoing* out) {
  if (!stream_) {
    const auto table = task_->get();
    if (!table) {
      if (!schema_ && sends_ == Sends::kTable) schema_ = task_->schema();
      if (!schema_ || schema_sent_) return State::kLater;
      *out = {};
      out->metadata = *schema_;
      return State::kReady;
    }
    stream_ = begin(table);
    task_.reset();
  }
  const State state = stream_->peek(out);
  set_way(stream_->way());
  return state;
}

// Returns a stream of the table, without the schema if that was sent.
std::unique_ptr<ServerStream> TableTaskStream::begin(const std::shared_ptr<const PublishedTable>& table) {
  auto stream = begin_(table);
  if (!schema_sent_) return stream;
  if (!std::ranges::equal(table->metadata_of(table->messages.front()), *schema_)) {
    throw UpstreamError("while the table was fetched it was replaced, or its server has gone: request it again");
  }
  stream->pop();
  return stream;
}

void TableTaskStream::pop() {
  if (stream_) {
    stream_->pop();
  } else {
    schema_sent_ = true;
  }
}

}  // namespace crossdock::session
