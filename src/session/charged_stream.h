#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "crossdock/array/stream.h"

namespace crossdock::session {

/// What a batch costs the table that is made of it.
struct BatchCost {
  std::uint64_t buffers = 0;   ///< Bytes of its buffers, and of its dictionaries that are new.
  std::uint64_t messages = 0;  ///< What the table keeps of the messages, at most: a batch without rows costs it, too.
};

/// Returns what a schema takes in memory, at most: few bytes of a message can describe many fields.
std::uint64_t cost_of(const array::Schema& schema) noexcept;

/// A stream that tells what each batch costs before it gives it out. So a table of somebody else's is bounded before
/// memory is taken, in its number of batches as in its bytes. Use it from one thread at a time.
class ChargedStream final : public array::BatchStream {
 public:
  /// Throws to end the stream. Called on the thread that calls next().
  using Charge = std::function<void(const BatchCost&)>;
  ChargedStream(std::unique_ptr<array::BatchStream> stream, Charge charge)
      : stream_(std::move(stream)), charge_(std::move(charge)) {}

  const std::shared_ptr<const array::Schema>& schema() const override { return stream_->schema(); }
  device::DeviceType device_type() const override { return stream_->device_type(); }
  std::optional<array::RecordBatch> next() override;

 private:
  const std::unique_ptr<array::BatchStream> stream_;
  const Charge charge_;
  std::vector<std::shared_ptr<const array::RecordBatch>> dictionaries_;  // of the last batch
  std::exception_ptr failure_;                                           // of charge_
};

/// Returns the stream of a table that a client sends. It ends with a ResourceError once its batches together cost more
/// than `limit` bytes; 0: no limit.
std::unique_ptr<array::BatchStream> bounded(std::unique_ptr<array::BatchStream> stream, std::uint64_t limit);

}  // namespace crossdock::session
