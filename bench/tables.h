#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"

namespace crossdock::bench {

inline constexpr int kColumns = 8;

/// Columns f0, f1, ... of float64.
std::shared_ptr<const array::Schema> float64_schema(int columns);

/// Gives a column's memory, aligned to 64 bytes.
using Allocate = std::function<std::byte*(std::uint64_t bytes)>;

/// `sets` batches of kColumns columns, `batch_bytes` each, no two of them with a byte in common. All values of batch i
/// are i + 1, so that a reader can tell whether it got what was meant.
std::vector<array::RecordBatch> make_batches(const std::shared_ptr<const array::Schema>& schema,
                                             std::uint64_t batch_bytes, int sets, const Allocate& allocate,
                                             const std::shared_ptr<const void>& owner);

/// The same from the heap.
std::vector<array::RecordBatch> make_heap_batches(const std::shared_ptr<const array::Schema>& schema,
                                                  std::uint64_t batch_bytes, int sets);

/// Cuts the i-th batch by i rows. Throws InvalidArgumentError for a batch with too few.
void make_ragged(std::vector<array::RecordBatch>* batches);

/// The given batches again and again, `count` in all.
class RepeatedStream final : public array::BatchStream {
 public:
  RepeatedStream(std::vector<array::RecordBatch> batches, std::int64_t count)
      : batches_(std::move(batches)), count_(count) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return batches_.front().schema; }
  std::optional<array::RecordBatch> next() override {
    if (given_ == count_) return std::nullopt;
    return batches_[static_cast<std::size_t>(given_++) % batches_.size()];
  }

 private:
  std::vector<array::RecordBatch> batches_;
  std::int64_t count_;
  std::int64_t given_ = 0;
};

}  // namespace crossdock::bench
