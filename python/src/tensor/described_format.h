#pragma once

#include <string>

#include "crossdock/array/tensor.h"

namespace crossdock::python {

/// The format in Python's buffer protocol (PEP 3118) of elements that are more than one number, as NumPy writes it:
/// "3s" for bytes, "2w" for text, "g" for long double, "T{...}" for structures. Gaps between fields are 'x', so that
/// consumers find each field where it is. It depends on the tensor: fields are written as aligned ones, whose sizes are
/// C's, only where its memory, its strides and all of its fields are aligned.
///
/// Empty where there is no such format: dates, untyped bytes of no structure, elements of no bytes, fields with a title
/// or with a name that a format can't hold.
std::string described_format(const array::Tensor& tensor);

}  // namespace crossdock::python
