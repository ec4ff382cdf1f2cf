#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/stream.h"

namespace crossdock::c_api {

/// A stream of struct arrays in host memory that a C caller has. One thread at a time may use it.
class ArraysStream final : public array::BatchStream {
 public:
  /// Reads `schema`, and remembers the arrays, which are still the caller's. Throws InvalidArgumentError for a schema
  /// or an array that was released, and as array::import_schema().
  ArraysStream(const ArrowSchema& schema, std::span<ArrowArray> batches);
  ArraysStream(const ArraysStream&) = delete;
  ArraysStream& operator=(const ArraysStream&) = delete;
  ~ArraysStream() override;

  /// Takes the arrays over, and marks the caller's released.
  void take() noexcept;

  const std::shared_ptr<const array::Schema>& schema() const override { return schema_; }
  /// Imports the next array. Throws as array::import_batch().
  std::optional<array::RecordBatch> next() override;

 private:
  std::shared_ptr<const array::Schema> schema_;
  std::span<ArrowArray> theirs_;
  std::vector<ArrowDeviceArray> ours_;  ///< Released until take() was called.
  std::size_t next_ = 0;
};

}  // namespace crossdock::c_api
