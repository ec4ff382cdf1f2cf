#include "array_interface.h"

#include <string>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "element_type.h"
#include "external_memory.h"
#include "names.h"
#include "tensor.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using array::Extents;
using array::Tensor;

constexpr const char* kArrayInterfaceName = "__array_interface__";

[[noreturn]] void fail_type(const char* where, const char* key, const char* wanted, nb::handle got) {
  throw_python(PyExc_TypeError, "%s: its %s must be %s, not %s", where, key, wanted, type_name_of(got.ptr()).c_str());
}

/// Returns the entry, or no object if the key is missing. Throws an exception that the comparison of keys raises: the
/// dictionary may have keys of any type with the same hash.
nb::object entry_or_nothing(nb::handle interface, const char* key) {
  PyObject* const value = PyDict_GetItemWithError(interface.ptr(), nb::str(key).ptr());
  if (value == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::borrow(value);
}

nb::object required(nb::handle interface, const char* where, const char* key) {
  nb::object value = entry_or_nothing(interface, key);
  if (!value.is_valid()) throw InvalidDataError(std::string(where) + ": its entry \"" + key + "\" is missing");
  return value;
}

void read_tuple(nb::handle tuple, const char* where, const char* key, std::span<std::int64_t> out) {
  for (std::size_t d = 0; d < out.size(); ++d) {
    out[d] = integer_in(tuple_item(tuple.ptr(), static_cast<Py_ssize_t>(d)), where, key);
  }
}

std::string text_in(nb::handle object, const char* where, const char* key) {
  if (PyUnicode_Check(object.ptr()) == 0) fail_type(where, key, "a str", object);
  return utf8_of(object);
}

const char* descr_key(Units units) noexcept { return units == Units::kBytes ? "descr" : "typedescr"; }

/// The interface specifies an entry "mask", but NumPy ignores it, so masked elements would become valid.
void refuse_mask(const Tensor& tensor) {
  if (!tensor.mask) return;
  throw UnsupportedError(
      "a tensor with a mask has no __array_interface__, because NumPy would ignore the mask; fill or drop the masked "
      "elements, or export the tensor as Arrow data");
}

/// Returns the type of elements whose NumPy dtype comes from another package (ml_dtypes): its name says what the
/// typestr can't. Returns nullopt if the typestr or the descr is sufficient, or if the object's `dtype` disagrees with
/// them: typestr and descr decide on size and fields.
std::optional<array::ElementType> type_by_name(nb::handle object, nb::handle interface) {
  const std::string typestr =
      text_in(required(interface, kArrayInterfaceName, "typestr"), kArrayInterfaceName, "typestr");
  if (!may_be_another_packages(typestr)) return std::nullopt;
  if (const nb::object descr = entry(interface, descr_key(Units::kBytes)); !descr.is_none()) {
    const std::vector<array::DescrField> fields = descr_in(descr);
    if (fields.size() != 1 || !fields[0].name.empty() || !fields[0].fields.empty()) return std::nullopt;
  }
  const nb::object dtype = optional_attribute(object.ptr(), names::dtype());
  if (!dtype.is_valid() || !is_numpy_dtype(dtype)) return std::nullopt;
  const array::ElementType named = element_type_in(dtype);
  const bool fits = !named.described && std::to_string(named.itemsize()) == std::string_view(typestr).substr(2);
  return fits ? std::optional(named) : std::nullopt;
}

array::ElementType type_in(nb::handle interface, const char* where, Units units) {
  const std::string typestr = text_in(required(interface, where, "typestr"), where, "typestr");
  const nb::object descr = entry(interface, descr_key(units));
  if (descr.is_none()) return array::parse_typestr(typestr);
  return array::structured_type(typestr, descr_in(descr));
}

/// Imports the memory that a dictionary describes, without its mask. `object`: the owner of the memory, whose buffer is
/// the memory if the dictionary has no data; it may be None. `known`: the element type, if typestr can't express it.
void read_interface(const nb::dict& interface, nb::handle object, const std::optional<array::ElementType>& known,
                    Tensor* out) {
  const std::int64_t version =
      integer_in(required(interface, kArrayInterfaceName, "version"), kArrayInterfaceName, "version");
  if (version != 3) {
    throw InvalidDataError(std::string(kArrayInterfaceName) + ": version " + std::to_string(version) +
                           "; it must be 3");
  }
  if (describe_from(interface, kArrayInterfaceName, out, Units::kBytes, known)) {
    array::check_tensor(out, kArrayInterfaceName);
    if (!object.is_none()) out->owner = owner_of(object.ptr());
    return;
  }
  // `data` isn't a pair. The memory is then the buffer of that entry, or of the object if there is no entry.
  const nb::object data = entry(interface, "data");
  const nb::handle holder = data.is_none() ? object : nb::handle(data);
  Tensor memory;
  if (PyObject_CheckBuffer(holder.ptr()) == 0 || !tensor_from_buffer(holder.ptr(), &memory)) {
    throw InvalidDataError(std::string(kArrayInterfaceName) +
                           ": its data must be a pair of address and read-only flag, or a buffer");
  }
  const nb::object offset = entry(interface, "offset");
  const std::int64_t start = offset.is_none() ? 0 : integer_in(offset, kArrayInterfaceName, "offset");
  if (!memory.c_contiguous() || !lies_in(*out, start, memory.nbytes(), kArrayInterfaceName)) {
    throw InvalidDataError(std::string(kArrayInterfaceName) + ": its elements aren't all in its buffer of " +
                           std::to_string(memory.nbytes()) + " bytes");
  }
  out->data = memory.data != nullptr ? static_cast<std::byte*>(memory.data) + start : nullptr;
  out->read_only = memory.read_only;
  out->owner = std::move(memory.owner);
  array::check_tensor(out, kArrayInterfaceName);
}

/// Makes a Tensor of a dictionary of the caller's, and of its memory if there is a deleter.
nb::object adopted(nb::handle desc, nb::handle owner, nb::handle deleter) {
  if (PyDict_Check(desc.ptr()) == 0) throw_type_error(desc, "desc must be a dict of NumPy's array interface");
  // A copy: reading a number or a dtype may run Python code, which may change the caller's dictionary.
  const auto interface = nb::borrow<nb::dict>(checked(PyDict_Copy(desc.ptr())));
  if (!entry(interface, "mask").is_none()) {
    throw UnsupportedError(std::string(kArrayInterfaceName) +
                           ": from_array_interface() reads no mask; give an object that has this dictionary as its "
                           "attribute to asarray(), which does");
  }
  const nb::object data = entry(interface, "data");
  const bool has_address = PyTuple_Check(data.ptr()) != 0 && tuple_size(data.ptr()) == 2;
  std::optional<ExternalMemory> memory;
  if (!deleter.is_none()) {
    if (!has_address) {
      throw InvalidDataError(std::string(kArrayInterfaceName) +
                             ": a deleter needs the entry \"data\" with the address that it frees and the read-only "
                             "flag");
    }
    memory.emplace(deleter, tuple_item(data.ptr(), 0));
  }
  Tensor tensor;
  read_interface(interface, owner, type_in_dtype(interface), &tensor);
  if (!memory) return checked(new_tensor(std::move(tensor)));
  tensor.owner = memory->owner(std::move(tensor.owner));
  nb::object made = checked(new_tensor(std::move(tensor)));
  memory->arm();
  return made;
}

}  // namespace

nb::object entry(nb::handle interface, const char* key) {
  nb::object value = entry_or_nothing(interface, key);
  return value.is_valid() ? value : nb::none();
}

std::int64_t integer_in(nb::handle object, const char* where, const char* key) {
  if (!is_int(object)) fail_type(where, key, "an int", object);
  if (const auto number = whole_number(object)) return *number;
  throw InvalidDataError(std::string(where) + ": a number of its " + key + " is beyond 64 bits");
}

bool describe_from(const nb::dict& interface, const char* where, Tensor* out, Units units,
                   const std::optional<array::ElementType>& known) {
  out->type = known ? *known : type_in(interface, where, units);
  const nb::object shape = required(interface, where, "shape");
  if (PyTuple_Check(shape.ptr()) == 0) fail_type(where, "shape", "a tuple of ints", shape);
  const Py_ssize_t ndim = tuple_size(shape.ptr());
  if (ndim > array::kMaxTensorDimensions) {
    throw InvalidDataError(std::string(where) + ": " + std::to_string(ndim) + " dimensions; at most " +
                           std::to_string(array::kMaxTensorDimensions) + " are possible");
  }
  out->extents = Extents(static_cast<std::int32_t>(ndim));
  read_tuple(shape, where, "shape", out->extents.shape());
  const nb::object strides = entry(interface, "strides");
  if (strides.is_none()) {
    array::set_row_major(out, where);
  } else {
    if (PyTuple_Check(strides.ptr()) == 0) fail_type(where, "strides", "None or a tuple of ints", strides);
    if (tuple_size(strides.ptr()) != ndim) {
      throw InvalidDataError(std::string(where) + ": " + std::to_string(tuple_size(strides.ptr())) + " strides for " +
                             std::to_string(ndim) + " dimensions");
    }
    read_tuple(strides, where, "strides", out->extents.strides());
    if (units == Units::kElements) {
      for (std::int64_t& stride : out->extents.strides()) {
        if (__builtin_mul_overflow(stride, out->type.itemsize(), &stride)) {
          throw InvalidDataError(std::string(where) + ": one of its strides is beyond 64 bits");
        }
      }
    }
  }
  const nb::object data = entry(interface, "data");
  if (PyTuple_Check(data.ptr()) == 0) return false;
  if (tuple_size(data.ptr()) != 2) {
    throw InvalidDataError(std::string(where) + ": its data must be a pair of address and read-only flag");
  }
  PyObject* const address = tuple_item(data.ptr(), 0);
  if (PyLong_Check(address) == 0 || PyBool_Check(address) != 0) fail_type(where, "data[0]", "an int", address);
  const unsigned long long pointer = PyLong_AsUnsignedLongLong(address);
  if (pointer == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw InvalidDataError(std::string(where) + ": its data[0] is not an address: it is negative, or beyond 64 bits");
  }
  PyObject* const read_only = tuple_item(data.ptr(), 1);
  if (PyBool_Check(read_only) == 0) fail_type(where, "data[1]", "a bool", read_only);
  out->data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer));
  out->read_only = read_only == Py_True;
  return true;
}

bool lies_in(const Tensor& tensor, std::int64_t offset, std::int64_t size, const char* where) {
  const array::ByteRange range = array::byte_range(tensor, where);
  std::int64_t first = 0;
  std::int64_t end = 0;
  return !__builtin_add_overflow(range.lowest, offset, &first) && first >= 0 &&
         !__builtin_add_overflow(range.highest, offset, &end) && end <= size;
}

void read_mask(const nb::dict& interface, const char* where, Tensor* out,
               const std::function<void(PyObject*, Tensor*)>& read) {
  const nb::object given = entry(interface, "mask");
  if (given.is_none()) return;
  // Guards against endless recursion: a mask may name itself as its mask.
  thread_local bool reading = false;
  if (reading) throw InvalidDataError(std::string(where) + ": its mask has a mask");
  struct Reading {
    Reading() { reading = true; }
    ~Reading() { reading = false; }
  };
  Tensor mask;
  {
    const Reading now;
    read(given.ptr(), &mask);
  }
  if (mask.mask) throw InvalidDataError(std::string(where) + ": its mask has a mask");
  // NumPy's specification: "broadcastable to the shape of the original array".
  const auto fail = [&] {
    throw InvalidDataError(std::string(where) + ": a mask of shape " + array::shape_text(mask.shape()) +
                           " doesn't fit an array of shape " + array::shape_text(out->shape()));
  };
  if (mask.ndim() > out->ndim()) fail();
  Tensor whole = mask;
  whole.extents = Extents(out->ndim());
  const std::size_t missing = out->shape().size() - mask.shape().size();
  for (std::size_t d = 0; d < out->shape().size(); ++d) {
    const std::int64_t extent = out->shape()[d];
    const bool spread = d < missing || (mask.shape()[d - missing] == 1 && extent != 1);
    if (!spread && mask.shape()[d - missing] != extent) fail();
    whole.extents.shape()[d] = extent;
    whole.extents.strides()[d] = spread ? 0 : mask.strides()[d - missing];
  }
  if (whole.size() == 0) whole.data = nullptr;
  out->mask = std::make_shared<const Tensor>(std::move(whole));
}

nb::dict interface_of(const Tensor& tensor, int version, Units units) {
  const std::string typestr = array::typestr_of(tensor.type);
  if (typestr.empty()) {
    throw ExportError("the array interfaces have no typestr for elements of type " +
                      array::element_type_name(tensor.type) + "; export it by DLPack");
  }
  nb::dict interface;
  interface["shape"] = checked(tuple_of(tensor.shape()));
  interface["typestr"] = nb::str(typestr.c_str(), typestr.size());
  if (tensor.type.described && !tensor.type.described->fields.empty()) {
    interface[descr_key(units)] = descr_object(tensor.type);
  }
  std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  if (units == Units::kElements && tensor.type.itemsize() != 0) {
    for (std::int64_t& stride : strides) stride /= tensor.type.itemsize();
  }
  interface["strides"] = tensor.c_contiguous() ? nb::none() : checked(tuple_of(strides));
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data), nb::bool_(tensor.read_only));
  interface["version"] = version;
  return interface;
}

PyObject* array_interface(PyObject* self, void* /*unused*/) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (!tensor.host_accessible()) {
      PyErr_Format(PyExc_AttributeError, "a tensor in memory of %s has no __array_interface__: the host can't read it",
                   device::to_string(tensor.device).c_str());
      return nullptr;
    }
    if (array::typestr_of(tensor.type).empty()) {
      PyErr_Format(PyExc_AttributeError, "a tensor of %s has no __array_interface__: it has no typestr",
                   array::element_type_name(tensor.type).c_str());
      return nullptr;
    }
    refuse_mask(tensor);
    wait_for(tensor);
    return interface_of(tensor, 3).release().ptr();
  });
}

PyObject* array_method(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) noexcept {
  return guarded([&]() -> PyObject* {
    PyObject* dtype = positional > 0 ? arguments[0] : nullptr;
    PyObject* copy = positional > 1 ? arguments[1] : nullptr;
    PyObject* const known[] = {names::dtype(), names::copy()};
    PyObject** const slots[] = {&dtype, &copy};
    if (positional > 2) throw nb::type_error("__array__() takes a dtype and copy");
    if (!names::read_keywords("__array__", arguments + positional, keywords, known, slots)) return nullptr;
    const Tensor& tensor = tensor_of(self);
    // Without this check, NumPy would try its other protocols, which can't succeed either.
    if (!tensor.host_accessible()) {
      throw ExportError("NumPy can't read memory of " + device::to_string(tensor.device) +
                        "; copy it to the host first: .to(\"cpu\")");
    }
    refuse_mask(tensor);
    if (array::typestr_of(tensor.type).empty()) {
      throw ExportError("NumPy has no elements of type " + array::element_type_name(tensor.type) +
                        "; export it by DLPack");
    }
    nb::dict options;
    if (given(dtype)) options["dtype"] = nb::borrow(dtype);
    if (given(copy)) options["copy"] = nb::borrow(copy);
    return nb::module_::import_("numpy")
        .attr(given(copy) ? "array" : "asarray")(nb::handle(self), **options)
        .release()
        .ptr();
  });
}

std::optional<array::ElementType> type_in_dtype(nb::handle interface) {
  if (PyDict_Check(interface.ptr()) == 0) return std::nullopt;
  const nb::object dtype = entry(interface, "dtype");
  if (dtype.is_none()) return std::nullopt;
  array::ElementType type = element_type_in(dtype);
  const nb::object typestr = entry(interface, "typestr");
  if (!typestr.is_none()) {
    const array::ElementType shown = array::parse_typestr(text_in(typestr, "a dict of an array", "typestr"));
    if (shown.itemsize() != type.itemsize()) {
      throw InvalidDataError("a dict of an array: its dtype " + array::element_type_name(type) + " has " +
                             std::to_string(type.itemsize()) + " bytes, and its typestr has " +
                             std::to_string(shown.itemsize()) + "; remove one of the two entries");
    }
  }
  return type;
}

bool tensor_from_array_interface(PyObject* object, Tensor* out) {
  const nb::object held = optional_attribute(object, names::__array_interface__());
  if (!held.is_valid()) return false;
  if (PyDict_Check(held.ptr()) == 0) fail_type(kArrayInterfaceName, "value", "a dict", held);
  const nb::dict interface = nb::borrow<nb::dict>(held);
  read_interface(interface, object, type_by_name(object, interface), out);
  read_mask(interface, kArrayInterfaceName, out, [](PyObject* mask, Tensor* read) {
    tensor_from_any(mask, {}, read);
    if (read->device.type != device::DeviceType::kCpu) {
      throw InvalidDataError(std::string(kArrayInterfaceName) + ": its mask is in memory of " +
                             device::to_string(read->device));
    }
    wait_for(*read);
    *read = exchange::without_event(std::move(*read));
  });
  return true;
}

void bind_array_interface(nb::module_& module) {
  module.def(
      "from_array_interface",
      [](nb::handle desc, nb::handle owner, nb::handle deleter) {
        drain_deferred();
        return adopted(desc, owner, deleter);
      },
      "desc"_a.none(), "owner"_a.none() = nb::none(), nb::kw_only(), "deleter"_a.none() = nb::none(),
      "Returns a Tensor of host memory that a dictionary of NumPy's array interface, version 3, describes.\n\n"
      "desc: shape, typestr, data (a pair of address and read-only flag), version, and if needed strides (in bytes) "
      "and descr. An entry dtype (\"bfloat16\", or another argument of DType()) replaces typestr, for types that it "
      "can't express. A mask is refused. The addresses aren't tried: wrong ones end the process when the memory is "
      "read.\n"
      "owner: an object that is kept while the memory is in use. If the dictionary has no data, the owner's buffer is "
      "the memory. Without an owner, the caller must keep the memory alive.\n"
      "deleter: a function that takes the address in data and frees it. It is called once, when the memory is no "
      "longer used, before the owner is released, on any thread of Python's. It isn't called if this call "
      "raises (the memory is then still the caller's), when the interpreter ends, or in a forked child.\n\n"
      "Raises InvalidDataError or InvalidArgumentError, which are ValueErrors, for entries that are missing or wrong, "
      "TypeError for entries of the wrong type, UnsupportedTypeError for elements that aren't supported (Python "
      "objects), UnsupportedError for a mask.");
}

}  // namespace crossdock::python
