#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>

#include "crossdock/array/tensor.h"

/// The dictionary that NumPy's array interface and the CUDA Array Interface have in common: shape, typestr, descr,
/// strides, data.
namespace crossdock::python {

/// None if the key isn't there. A reference of its own: reading a number may run Python, which may change the
/// dictionary.
nanobind::object entry(nanobind::handle interface, const char* key);

/// An integer of a dictionary, for errors as `key`. Throws Python's TypeError for what isn't one (a bool isn't),
/// InvalidDataError for one out of range.
std::int64_t integer_in(nanobind::handle object, const char* where, const char* key);

/// What a dictionary counts its strides in; with elements, the entry `descr` is called `typedescr`: SYCL's.
enum class Units : bool { kBytes, kElements };

/// Sets type, extents and read_only of `*out` from the entries of `interface`, and data if it has a pair there; false
/// if `data` is missing or something else. Throws InvalidDataError that names the entry, Python's TypeError for entries
/// of the wrong type, UnsupportedTypeError. `where` begins the text. `known`: the type, where the typestr can't say it.
bool describe_from(const nanobind::dict& interface, const char* where, array::Tensor* out, Units units = Units::kBytes,
                   const std::optional<array::ElementType>& known = {});

/// Sets the mask of `*out`, whose extents are set, from the entry of that name, if it is there: an array, which `read`
/// reads, spread over the shape by NumPy's broadcasting. Throws InvalidDataError for one that doesn't fit.
void read_mask(const nanobind::dict& interface, const char* where, array::Tensor* out,
               const std::function<void(PyObject*, array::Tensor*)>& read);

/// The entries shape, typestr, descr (where it says more), strides (None in C order), data and version. Throws
/// ExportError for types without a typestr. With kElements, the strides are multiples of an element.
nanobind::dict interface_of(const array::Tensor& tensor, int version, Units units = Units::kBytes);

}  // namespace crossdock::python
