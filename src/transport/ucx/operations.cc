#include "operations.h"

#include <iterator>
#include <new>
#include <utility>

namespace crossdock::transport::ucx {
namespace {

// Limits of what is kept for the next operations.
constexpr std::size_t kMaxIdle = 64;
constexpr std::size_t kMaxIdleBytes = 16 << 10;

}  // namespace

Operations::~Operations() {
  for (Operation& operation : active_) {
    if (operation.outcome != nullptr) operation.outcome->end(UCS_ERR_CANCELED);
  }
}

Operation& Operations::begin() {
  if (idle_.empty()) idle_.emplace_back();
  active_.splice(active_.end(), idle_, std::prev(idle_.end()));
  Operation& operation = active_.back();
  operation.owner = this;
  operation.self = std::prev(active_.end());
  return operation;
}

Operation& Operations::begin_copy(ByteSpan head, ByteSpan tail) {
  Operation& operation = begin();
  try {
    operation.copy.reserve(head.size() + tail.size());
  } catch (const std::bad_alloc&) {
    end(operation, UCS_ERR_NO_MEMORY);
    throw;
  }
  operation.copy.assign(head.begin(), head.end());
  operation.copy.insert(operation.copy.end(), tail.begin(), tail.end());
  copied_ += operation.copy.size();
  return operation;
}

Operation& Operations::begin_gather(std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  Operation& operation = begin();
  try {
    operation.parts.reserve(parts.size());
  } catch (const std::bad_alloc&) {
    end(operation, UCS_ERR_NO_MEMORY);
    throw;
  }
  operation.keep = std::move(keep);
  for (const ByteSpan part : parts) {
    if (part.empty()) continue;
    ucp_dt_iov_t entry{};
    entry.buffer = const_cast<std::byte*>(part.data());  // UCX only reads it
    entry.length = part.size();
    operation.parts.push_back(entry);
  }
  return operation;
}

Operation& Operations::begin_read(std::shared_ptr<Outcome> outcome, std::shared_ptr<const void> keep) {
  Operation& operation = begin();
  operation.outcome = std::move(outcome);
  operation.keep = std::move(keep);
  operation.is_read = true;
  ++reads_;
  return operation;
}

void Operations::end(Operation& operation, ucs_status_t status) noexcept {
  if (operation.outcome != nullptr) operation.outcome->end(status);
  operation.outcome = nullptr;
  void* const told = std::exchange(operation.told_of_failure, nullptr);
  if (status != UCS_OK && told != nullptr) on_failure_(told, status);
  operation.memory_type = UCS_MEMORY_TYPE_HOST;
  if (std::exchange(operation.is_read, false)) --reads_;
  copied_ -= operation.copy.size();
  operation.header.clear();
  operation.copy.clear();
  operation.parts.clear();
  const bool reusable =
      operation.keep == nullptr && idle_.size() < kMaxIdle && operation.copy.capacity() <= kMaxIdleBytes;
  std::list<Operation>& to = reusable ? idle_ : ended_;
  to.splice(to.end(), active_, operation.self);
}

std::list<Operation> Operations::take_ended() noexcept {
  std::list<Operation> ended;
  ended.splice(ended.end(), ended_);
  return ended;
}

void Operations::on_end(void* request, ucs_status_t status, void* user_data) noexcept {
  Operation& operation = *static_cast<Operation*>(user_data);
  Operations& owner = *operation.owner;
  owner.end(operation, status);
  owner.api_.request_free(request);
}

}  // namespace crossdock::transport::ucx
