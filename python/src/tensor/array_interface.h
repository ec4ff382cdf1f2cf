#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>

#include "crossdock/array/tensor.h"

/// The dictionary entries that the array interfaces of NumPy, CUDA and SYCL have in common: shape, typestr, descr,
/// strides, data.
namespace crossdock::python {

/// Returns the entry of a dictionary, or None if the key is missing. The result is a new reference, because reading a
/// number may run Python code, which may change the dictionary.
nanobind::object entry(nanobind::handle interface, const char* key);

/// Converts an entry to an integer. Error messages call it `key`. Throws Python's TypeError if it isn't an integer (a
/// bool isn't one), InvalidDataError if it is out of range.
std::int64_t integer_in(nanobind::handle object, const char* where, const char* key);

/// The unit of a dictionary's strides. SYCL's interface uses elements, and calls the entry `descr` `typedescr`.
enum class Units : bool { kBytes, kElements };

/// Sets type and extents of `*out` from the entries of `interface`; sets data and read_only if the entry `data` is a
/// pair. Returns false if `data` is missing or isn't a tuple. `where` begins the text of errors. `known` is the element
/// type, for types that a typestr can't express. Throws InvalidDataError, which names the entry; Python's TypeError for
/// entries of the wrong type; UnsupportedTypeError.
bool describe_from(const nanobind::dict& interface, const char* where, array::Tensor* out, Units units = Units::kBytes,
                   const std::optional<array::ElementType>& known = {});

/// Returns the element type that the entry "dtype" of a caller's dictionary names, for types that a typestr can't
/// express. Returns nullopt without the entry. Throws InvalidDataError if the typestr is of another size, and the
/// errors of element_type_in().
std::optional<array::ElementType> type_in_dtype(nanobind::handle interface);

/// Returns true if all elements of a tensor whose extents are set lie in `size` bytes, the first element at byte
/// `offset`. `where` begins the text of errors.
bool lies_in(const array::Tensor& tensor, std::int64_t offset, std::int64_t size, const char* where);

/// Sets the mask of `*out` from the entry "mask", if there is one. The extents of `*out` must be set. `read` imports
/// the mask, which is then broadcast to the shape as NumPy does. Throws InvalidDataError for a mask that doesn't fit.
void read_mask(const nanobind::dict& interface, const char* where, array::Tensor* out,
               const std::function<void(PyObject*, array::Tensor*)>& read);

/// Makes a dictionary with the entries shape, typestr, descr (if it says more than typestr), strides (None for C
/// order), data and version. With kElements, strides are counted in elements, of which they must be multiples. Throws
/// ExportError for types without a typestr.
nanobind::dict interface_of(const array::Tensor& tensor, int version, Units units = Units::kBytes);

/// Adds from_array_interface().
void bind_array_interface(nanobind::module_& module);

}  // namespace crossdock::python
