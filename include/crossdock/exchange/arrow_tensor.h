#pragma once

#include <memory>
#include <string>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"

/// Conversion between tensors and Arrow columns. Zero-copy, except where a comment says otherwise. Never reads device
/// memory.
namespace crossdock::exchange {

/// Policy for bool values, which are bits in Arrow and bytes elsewhere: a conversion needs a copy.
enum class BoolPolicy : std::uint8_t {
  kRefuse,   ///< Throws ExportError.
  kConvert,  ///< Copies into new host memory.
};

/// The one column of a batch as a read-only tensor: integers, floats, timestamps, durations, date64 and fixed-size
/// binary of any kind in one dimension; a fixed-size list of those, of any depth, in one more for each; and the
/// canonical extension type arrow.fixed_shape_tensor in those of its shape, permuted as it says. Throws ExportError
/// that says what to do instead: nulls, a null count that isn't known on a device, other types (other extension types
/// and timestamps with a time zone among them), more columns than one.
/// InvalidDataError for an extension's metadata that makes no sense.
CROSSDOCK_EXPORT array::Tensor tensor_of_column(const array::RecordBatch& column, BoolPolicy bools);

/// The schema that column_of_tensor() gives. Of the memory, and of a mask's, no byte is read.
CROSSDOCK_EXPORT std::shared_ptr<const array::Schema> schema_of_tensor(const array::Tensor& tensor, BoolPolicy bools);

/// The tensor as a batch of one column without a name, of which the memory lives as long as any of it: one dimension as
/// numbers (dates as timestamps, bytes as fixed-size binary), more as arrow.fixed_shape_tensor, of which the first
/// dimension is the rows. A mask becomes validity: new bits in host memory. Throws ExportError that says what to do
/// instead: no dimension, gaps or another order than C, types that Arrow hasn't.
CROSSDOCK_EXPORT array::RecordBatch column_of_tensor(const array::Tensor& tensor, BoolPolicy bools);

}  // namespace crossdock::exchange
