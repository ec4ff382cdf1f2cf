#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::exchange {

/// What a copy of a record batch consists of: the batch as it will be, but for addresses, and the bytes to copy.
class BatchPlan {
 public:
  struct Part {
    const void* from;
    std::uint64_t size;
    const void** address;  ///< Where in the batch made the part's new address belongs.
    bool on_host;          ///< `from` is host memory that may be read now.
    std::uint64_t at = 0;  ///< Offset in the target.
  };

  /// Plans the copy of `from`, which is kept and has passed check_structure with all sizes known. `to_host`: the target
  /// is memory in which nobody looks for the sizes of variadic buffers.
  BatchPlan(std::shared_ptr<const array::RecordBatch> from, bool to_host);
  BatchPlan(const BatchPlan&) = delete;
  BatchPlan& operator=(const BatchPlan&) = delete;

  /// The first of them are those to gather: on the host, and small.
  std::vector<Part>& parts() noexcept { return parts_; }
  /// Gives every part its place: gathered ones first (only if `gather`). Returns the number of those.
  std::size_t lay_out(bool gather);
  std::uint64_t gathered_bytes() const noexcept { return gathered_bytes_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// The batch and its dictionaries, to be filled in.
  std::vector<array::RecordBatch*> made();
  /// Gives the batch away. Parts' `address` are of no use any more.
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
  std::deque<std::vector<std::int64_t>> numbers_;             ///< Sizes of variadic buffers that stand nowhere yet.
  std::unordered_multimap<const void*, Known> dictionaries_;  ///< By the address of some buffer.
  std::uint64_t gathered_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace crossdock::exchange
