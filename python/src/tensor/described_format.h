#pragma once

#include <string>

#include "crossdock/array/tensor.h"

namespace crossdock::python {

/// Returns the format in Python's buffer protocol (PEP 3118) of elements that are more than one number, as NumPy writes
/// it: "3s" for bytes, "2w" for text, "g" for long double, "T{...}" for structures. Gaps between fields are written as
/// 'x', so that consumers find each field at its offset. The format depends on the tensor: it uses native alignment and
/// C's sizes only if the memory, the strides and all fields are aligned.
///
/// Returns an empty text if there is no such format: for dates, untyped bytes without fields, elements of no bytes, and
/// fields with a title, with an extent of 0, or with a name that a format can't hold.
std::string described_format(const array::Tensor& tensor);

}  // namespace crossdock::python
