#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::exchange {

/// The plan for the copy of a record batch: the resulting batch, without addresses, and the byte ranges to copy.
class BatchPlan {
 public:
  struct Part {
    const void* from;
    std::uint64_t size;
    const void** address;  ///< Place in the new batch for the part's new address.
    bool on_host;          ///< `from` is host memory that may be read now.
    std::uint64_t at = 0;  ///< Offset in the target.
  };

  /// Plans the copy of `from`, which is kept. `from` has passed check_structure and all its sizes are known. With
  /// `to_host`, the target is host memory, where sizes of variadic buffers need not be stored.
  BatchPlan(std::shared_ptr<const array::RecordBatch> from, bool to_host);
  BatchPlan(const BatchPlan&) = delete;
  BatchPlan& operator=(const BatchPlan&) = delete;

  /// After lay_out(true), the parts to gather come first: those on the host that are small.
  std::vector<Part>& parts() noexcept { return parts_; }
  /// Gives every part its offset in the target, gathered ones first. Gathers only if `gather`. Returns the number of
  /// gathered parts.
  std::size_t lay_out(bool gather);
  std::uint64_t gathered_bytes() const noexcept { return gathered_bytes_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Returns the new batch and its dictionaries, for the caller to fill in.
  std::vector<array::RecordBatch*> made();
  /// Moves the new batch out. The parts' `address` are invalid afterwards.
  array::RecordBatch take() noexcept;

 private:
  class Walker;
  struct Known {
    const array::RecordBatch* from;
    std::shared_ptr<array::RecordBatch> made;
  };

  void plan(const array::RecordBatch& from, array::RecordBatch* made);
  std::shared_ptr<array::RecordBatch> dictionary(const array::RecordBatch& from);

  std::shared_ptr<const array::RecordBatch> from_;
  const bool from_host_;
  const bool to_host_;
  array::RecordBatch batch_;
  std::vector<Part> parts_;
  std::deque<std::vector<std::int64_t>> numbers_;             ///< Sizes of variadic buffers that no buffer holds yet.
  std::unordered_multimap<const void*, Known> dictionaries_;  ///< By the address of one buffer.
  std::uint64_t gathered_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace crossdock::exchange
