#pragma once

#include <memory>

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

/// Returns the one column of a batch as a read-only tensor.
///
/// Integers, floats, timestamps, durations, date64 and fixed-size binary of any kind give one dimension. A fixed-size
/// list of those, of any depth, adds one dimension for each level. The canonical extension type
/// arrow.fixed_shape_tensor adds the dimensions of its shape, permuted as its metadata says.
///
/// Throws ExportError for nulls, for a null count that isn't known on a device, for other types (among them other
/// extension types, and timestamps with a time zone), and for more than one column. The text of the error says what to
/// do instead. Throws InvalidDataError if the metadata of an extension type is invalid.
CROSSDOCK_EXPORT array::Tensor tensor_of_column(const array::RecordBatch& column, BoolPolicy bools);

/// Returns the schema that column_of_tensor() would give. Reads no byte of the memory, nor of a mask.
CROSSDOCK_EXPORT std::shared_ptr<const array::Schema> schema_of_tensor(const array::Tensor& tensor, BoolPolicy bools);

/// Returns the tensor as a batch of one column without a name. The tensor's memory lives as long as any part of the
/// batch.
///
/// One dimension becomes a column of numbers: dates become timestamps, and bytes become fixed-size binary. More
/// dimensions become arrow.fixed_shape_tensor; the first dimension counts the rows. A mask becomes validity: new bits
/// in host memory.
///
/// Throws ExportError for a tensor without dimensions, for gaps or an order other than C, and for types that Arrow
/// doesn't have. The text of the error says what to do instead.
CROSSDOCK_EXPORT array::RecordBatch column_of_tensor(const array::Tensor& tensor, BoolPolicy bools);

}  // namespace crossdock::exchange
