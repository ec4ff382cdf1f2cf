#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api.h"
#include "core/bytes.h"

namespace crossdock::transport::ucx {

class Operations;

/// The outcome of some operations, for their owner on any thread.
class Outcome {
 public:
  /// Counts in `unseen`, unless it is null, as long as all operations are over and the owner hasn't seen that.
  explicit Outcome(std::size_t operations, std::shared_ptr<std::atomic<std::size_t>> unseen = nullptr) noexcept
      : left_(operations), unseen_(std::move(unseen)) {}
  /// Whether all of them are over.
  bool over() const noexcept { return left_.load(std::memory_order_acquire) == 0; }
  /// UCS_OK, or the first failure so far.
  ucs_status_t status() const noexcept { return failure_.load(std::memory_order_acquire); }
  /// The owner has seen that they are over, or doesn't ask any more.
  void see() noexcept {
    if (seen_.exchange(Seen::kYes) == Seen::kNotYet) --*unseen_;
  }
  /// Records the end of one.
  void end(ucs_status_t status) noexcept {
    ucs_status_t none = UCS_OK;
    if (status != UCS_OK) failure_.compare_exchange_strong(none, status, std::memory_order_acq_rel);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1 || unseen_ == nullptr) return;
    ++*unseen_;
    Seen unseen = Seen::kNothingYet;
    if (!seen_.compare_exchange_strong(unseen, Seen::kNotYet)) --*unseen_;
  }

 private:
  enum class Seen : std::uint8_t { kNothingYet, kNotYet, kYes };
  std::atomic<std::size_t> left_;
  std::atomic<ucs_status_t> failure_{UCS_OK};
  std::atomic<Seen> seen_{Seen::kNothingYet};
  const std::shared_ptr<std::atomic<std::size_t>> unseen_;
};

/// A send, a read or a close that is under way, with all memory that UCX uses for it.
struct Operation {
  std::vector<std::byte> header;  ///< Of an active message.
  std::vector<std::byte> copy;
  std::vector<ucp_dt_iov_t> parts;   ///< None is empty.
  std::shared_ptr<const void> keep;  ///< What else must live until the end.
  std::shared_ptr<Outcome> outcome;  ///< Told of the end, if anybody asks for it.
  bool is_read = false;
  ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_HOST;  ///< Of `parts`.
  void* told_of_failure = nullptr;                       ///< For the FailureHandler; null: nobody is told.
  Operations* owner = nullptr;
  std::list<Operation>::iterator self;
};

/// The operations of one worker that are under way. They stay here until UCX has ended them, or the worker is
/// destroyed. Use it under the worker's lock; `user_data` of UCX's call-backs is the Operation.
class Operations {
 public:
  /// Is called under the worker's lock, with Operation::told_of_failure.
  using FailureHandler = void (*)(void* told, ucs_status_t status);
  Operations(const Api& api, FailureHandler on_failure) noexcept : api_(api), on_failure_(on_failure) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  /// Ends what is left as cancelled. UCX must be through with it: destroy its worker first.
  ~Operations();

  /// Returns a new operation, which counts as under way until end().
  Operation& begin();
  /// The same, with a copy of a message.
  Operation& begin_copy(ByteSpan head, ByteSpan tail);
  /// The same, with the addresses of the parts that aren't empty.
  Operation& begin_gather(std::span<const ByteSpan> parts, std::shared_ptr<const void> keep);
  /// The same, for one part of a group of reads. `keep` holds the memory that is written.
  Operation& begin_read(std::shared_ptr<Outcome> outcome, std::shared_ptr<const void> keep);
  void end(Operation& operation, ucs_status_t status) noexcept;
  /// Returns operations that have ended and still hold their `keep`, so that these are dropped without the lock.
  [[nodiscard]] std::list<Operation> take_ended() noexcept;

  std::size_t count() const noexcept { return active_.size(); }
  std::size_t reads() const noexcept { return reads_; }
  std::size_t copied_bytes() const noexcept { return copied_; }

  /// UCX's call-back.
  static void on_end(void* request, ucs_status_t status, void* user_data) noexcept;

 private:
  const Api& api_;
  const FailureHandler on_failure_;
  std::list<Operation> active_;
  std::list<Operation> idle_;  // to be used again
  std::list<Operation> ended_;
  std::size_t copied_ = 0;
  std::size_t reads_ = 0;
};

}  // namespace crossdock::transport::ucx
