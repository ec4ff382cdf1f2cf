#pragma once

#include <cstdint>
#include <memory>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"

/// Exports data in another encoding, for consumers that request one.
namespace crossdock::array {

/// A conversion of batches to a schema that encodes the same data in another way. At any depth: text and binary data
/// with 32-bit or 64-bit offsets or as views; lists with 32-bit or 64-bit offsets; dictionary-encoded or plain, for
/// types without children; indices of any type; other metadata, nullability, and names of the fields in lists, maps and
/// runs. Immutable; threads may share it.
class Conversion {
 public:
  enum class Effort : std::uint8_t {
    kNone,  ///< All buffers stay: apply() copies nothing and accepts memory of any device.
    kRead,  ///< The data must be read.
    kCast,  ///< Values must become values of another type. Nothing here does that.
  };

  /// Throws UnsupportedTypeError, which names the field's path, if the schemas differ in anything else than encoding
  /// and types without children. With `named`, the names of the columns must be equal.
  Conversion(const Schema& from, std::shared_ptr<const Schema> to, bool named = true);

  const std::shared_ptr<const Schema>& schema() const noexcept { return to_; }
  Effort effort() const noexcept { return effort_; }

  /// Returns a batch of the schema `from` in the new schema. Buffers that stay the same are shared, as far as
  /// normalized() keeps them. Adds the bytes of new buffers to `*copied`. Don't call it for kCast.
  ///
  /// Checks every offset, index and view before it is followed. Throws InvalidDataError for an invalid one, and for a
  /// null in a field that is nullable in the old schema only; ExportError if the new offsets or indices are too narrow;
  /// InvalidArgumentError for kRead if the batch isn't host_readable().
  RecordBatch apply(RecordBatch batch, std::int64_t* copied) const;

 private:
  std::shared_ptr<const Schema> to_;
  Effort effort_ = Effort::kNone;
};

}  // namespace crossdock::array
