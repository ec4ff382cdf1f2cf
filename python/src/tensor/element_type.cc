#include "element_type.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <string>

#include "crossdock/core/error.h"
#include "names.h"
#include "tensor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

/// crossdock.DType
struct PyElementType {
  array::ElementType type;
};

std::string text_of(nb::handle object) { return utf8_of(nb::str(object)); }

/// Converts a dtype of NumPy, without importing NumPy: an object with a typestr `str`, a `name` and a `descr`.
array::ElementType from_numpy(nb::handle dtype) {
  const std::string typestr = text_of(dtype.attr("str"));
  const nb::object fields = nb::getattr(dtype, "fields", nb::none());
  if (!fields.is_none()) return array::structured_type(typestr, descr_in(dtype.attr("descr")));
  if (!may_be_another_packages(typestr)) return array::parse_typestr(typestr);
  const std::string name = text_of(dtype.attr("name"));
  if (name.starts_with("void")) return array::parse_typestr(typestr);
  if (typestr.front() == '>') {
    throw UnsupportedTypeError("elements of type " + name +
                               " in the other byte order aren't supported by any protocol; swap them first, as in "
                               "array.byteswap().view(array.dtype.newbyteorder())");
  }
  try {
    return array::parse_element_type(name);
  } catch (const InvalidArgumentError&) {
    throw UnsupportedTypeError("elements of type " + name +
                               " are defined only by their NumPy extension package; export them as bytes, as in "
                               "array.view(\"u1\"), or convert them");
  }
}

/// Returns true for a class that stands for an element type: of NumPy, or of a package that adds types to NumPy.
bool is_numpy_type(nb::handle object) {
  if (PyType_Check(object.ptr()) == 0) return false;
  if (is_made_from(reinterpret_cast<PyTypeObject*>(object.ptr()), "numpy.generic")) return true;
  const nb::object dtype = optional_attribute(object.ptr(), names::dtype());  // JAX's types have one
  return dtype.is_valid() && is_numpy_dtype(dtype);
}

nb::object field_object(const array::DescrField& field) {
  nb::object type;
  if (field.fields.empty()) {
    type = nb::str(field.typestr.c_str(), field.typestr.size());
  } else {
    nb::list within;
    for (const array::DescrField& one : field.fields) within.append(field_object(one));
    type = within;
  }
  nb::object name = nb::str(field.name.c_str(), field.name.size());
  if (!field.title.empty()) name = nb::make_tuple(nb::str(field.title.c_str(), field.title.size()), name);
  if (field.shape.empty()) return nb::make_tuple(name, type);
  return nb::make_tuple(name, type, checked(tuple_of(field.shape)));
}

constexpr int kMostNesting = 16;

/// Limits the work for one descr. A small descr may expand to more than memory holds, because its lists, tuples and
/// texts may be shared and nested.
struct DescrBudget {
  int fields = 4096;
  std::size_t bytes = std::size_t{1} << 20;  // of names, titles and types
};

std::string string_in(nb::handle object, const char* what, DescrBudget* left) {
  if (PyUnicode_Check(object.ptr()) == 0) {
    throw InvalidArgumentError(std::string("a descr's ") + what + " must be a str, not " +
                               excerpt(nb::type_name(object.type()).c_str()));
  }
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);  // made once and cached in the object
  if (text == nullptr) throw nb::python_error();
  if (static_cast<std::size_t>(size) > left->bytes) {
    throw InvalidArgumentError("a descr's names and types have more than 1,048,576 bytes in all");
  }
  left->bytes -= static_cast<std::size_t>(size);
  return {text, static_cast<std::size_t>(size)};
}

std::vector<array::DescrField> fields_in(nb::handle descr, int depth, DescrBudget* left);

std::vector<std::int64_t> shape_in(nb::handle shape) {
  std::vector<std::int64_t> extents;
  const auto append = [&](nb::handle extent) {
    const long long number = PyLong_AsLongLong(extent.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    extents.push_back(number);
  };
  if (PyLong_Check(shape.ptr()) != 0) {
    append(shape);
    return extents;
  }
  if (PyTuple_Check(shape.ptr()) == 0) throw InvalidArgumentError("a descr's shape must be an int or a tuple of ints");
  if (tuple_size(shape.ptr()) > array::kMaxTensorDimensions) {
    throw InvalidArgumentError("a descr's shape has " + std::to_string(tuple_size(shape.ptr())) +
                               " dimensions; at most " + std::to_string(array::kMaxTensorDimensions) + " are possible");
  }
  for (nb::handle extent : nb::borrow<nb::tuple>(shape)) append(extent);
  return extents;
}

array::DescrField field_in(nb::handle item, int depth, DescrBudget* left) {
  if (PyTuple_Check(item.ptr()) == 0 || (nb::len(item) != 2 && nb::len(item) != 3)) {
    throw InvalidArgumentError("a descr must be a list of tuples: name, type and, optionally, shape");
  }
  array::DescrField field;
  nb::object name = item[0];
  if (PyTuple_Check(name.ptr()) != 0 && nb::len(name) == 2) {
    field.title = string_in(nb::object(name[0]), "title", left);
    name = nb::object(name[1]);
  }
  field.name = string_in(name, "name", left);
  const nb::object type = item[1];
  if (PyList_Check(type.ptr()) != 0) {
    field.fields = fields_in(type, depth + 1, left);
  } else {
    field.typestr = string_in(type, "type", left);
  }
  if (nb::len(item) == 3) field.shape = shape_in(nb::object(item[2]));
  return field;
}

std::vector<array::DescrField> fields_in(nb::handle descr, int depth, DescrBudget* left) {
  if (PyList_Check(descr.ptr()) == 0) throw InvalidArgumentError("a descr must be a list");
  if (depth > kMostNesting) throw InvalidArgumentError("a descr is nested too deeply");
  if (PyList_Size(descr.ptr()) > left->fields) throw InvalidArgumentError("a descr has more than 4,096 fields");
  std::vector<array::DescrField> fields;
  // Copies the list to a tuple, because reading a number may run Python code, which may change the list.
  const nb::object items = checked(PyList_AsTuple(descr.ptr()));
  for (nb::handle item : nb::borrow<nb::tuple>(items)) {
    if (--left->fields < 0) throw InvalidArgumentError("a descr has more than 4,096 fields");
    fields.push_back(field_in(item, depth, left));
  }
  return fields;
}

nb::object numpy_dtype(const PyElementType& self) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  if (self.type.described && !self.type.described->fields.empty()) {
    // Doesn't call dtype(), which would make fields of the gaps in an aligned structure.
    return nb::module_::import_("numpy.lib.format").attr("descr_to_dtype")(descr_object(self.type));
  }
  const std::string typestr = array::typestr_of(self.type);
  if (!typestr.empty()) return numpy.attr("dtype")(typestr);
  // The other types are defined for NumPy by the package ml_dtypes, when it is imported.
  const nb::module_ more = nb::module_::import_("ml_dtypes");
  return numpy.attr("dtype")(more.attr(array::element_type_name(self.type).c_str()));
}

}  // namespace

bool is_made_from(PyTypeObject* type, const char* name) noexcept {
  const nb::object bases = nb::steal(bases_in_order(type));
  if (!bases.is_valid()) return false;  // the class is being made: its metaclass's mro() is running
  const Py_ssize_t n = tuple_size(bases.ptr());
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (has_name(reinterpret_cast<PyTypeObject*>(tuple_item(bases.ptr(), i)), name)) return true;
  }
  return false;
}

bool is_numpy_dtype(nb::handle object) noexcept { return is_made_from(Py_TYPE(object.ptr()), "numpy.dtype"); }

bool may_be_another_packages(std::string_view typestr) noexcept {
  constexpr std::string_view kNumpys = "?biufcmMSUOT";
  return typestr.size() > 2 && (kNumpys.find(typestr[1]) == std::string_view::npos || typestr.substr(1) == "f1");
}

nb::object element_type_object(const array::ElementType& type) { return nb::cast(PyElementType{type}); }

std::vector<array::DescrField> descr_in(nb::handle descr) {
  DescrBudget left;
  return fields_in(descr, 0, &left);
}

nb::object descr_object(const array::ElementType& type) {
  nb::list fields;
  if (type.described && !type.described->fields.empty()) {
    for (const array::DescrField& field : type.described->fields) fields.append(field_object(field));
  } else {
    fields.append(nb::make_tuple("", array::typestr_of(type)));
  }
  return fields;
}

array::ElementType element_type_in(nb::handle object) {
  PyElementType* own = nullptr;
  if (nb::try_cast(object, own) && own != nullptr) return own->type;
  if (PyUnicode_Check(object.ptr()) != 0) return array::parse_element_type(utf8_of(object));
  if (object.is(reinterpret_cast<PyObject*>(&PyBool_Type))) return array::parse_element_type("bool");
  if (object.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return array::parse_element_type("int64");
  if (object.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) return array::parse_element_type("float64");
  if (object.is(reinterpret_cast<PyObject*>(&PyComplex_Type))) return array::parse_element_type("complex128");
  if (is_numpy_type(object)) return from_numpy(nb::module_::import_("numpy").attr("dtype")(object));
  if (PyType_Check(object.ptr()) == 0 && optional_attribute(object.ptr(), names::str()).is_valid() &&
      optional_attribute(object.ptr(), names::itemsize()).is_valid()) {
    return from_numpy(object);
  }
  const std::string text = text_of(object);
  constexpr std::string_view kTorch = "torch.";
  if (text.starts_with(kTorch)) return array::parse_element_type(text.substr(kTorch.size()));
  throw InvalidArgumentError(
      "an object of type " + excerpt(nb::type_name(object.type()).c_str()) +
      " is not an element type; give a name, as in \"float32\", a typestr, or a NumPy or torch dtype");
}

void bind_element_type(nb::module_& module) {
  nb::class_<PyElementType>(module, "DType",
                            "The type of the elements of a tensor. Compares equal to its names and to dtypes of NumPy "
                            "and torch. Their hashes differ, so use only one of these kinds as keys of a dict.")
      .def(
          "__init__", [](PyElementType* self, nb::handle of) { new (self) PyElementType{element_type_in(of)}; }, "of"_a,
          "of: a name (\"float32\"), a typestr (\"<f4\"), or a dtype of NumPy or torch.\n\n"
          "Raises `InvalidArgumentError` for what names no type, and `UnsupportedTypeError` for types that tensors "
          "can't have.")
      .def_prop_ro(
          "name", [](const PyElementType& self) { return array::element_type_name(self.type); },
          "The name (\"float32\"); the typestr for a type without a name.")
      .def_prop_ro(
          "str",
          [](const PyElementType& self) -> nb::object {
            const std::string typestr = array::typestr_of(self.type);
            if (typestr.empty()) return nb::none();
            return nb::str(typestr.c_str());
          },
          "The typestr of the array interfaces (\"<f4\"); None for types without one (for example bfloat16).")
      .def_prop_ro(
          "descr", [](const PyElementType& self) { return descr_object(self.type); },
          "The descr as in NumPy: the fields of a structured type, else one field without a name.")
      .def_prop_ro(
          "itemsize", [](const PyElementType& self) { return self.type.itemsize(); }, "Bytes of one element.")
      .def_prop_ro(
          "dlpack",
          [](const PyElementType& self) -> nb::object {
            if (self.type.described || self.type.swapped) return nb::none();
            return nb::make_tuple(static_cast<int>(self.type.code), self.type.bits, self.type.lanes);
          },
          "DLPack's (code, bits, lanes); None for a type that DLPack can't describe.")
      .def_prop_ro("dtype", numpy_dtype, "NumPy's dtype, so that np.dtype() accepts this object. Imports NumPy.")
      .def("__hash__",
           [](const PyElementType& self) { return nb::hash(nb::str(array::element_type_name(self.type).c_str())); })
      .def(
          "__eq__",
          [](const PyElementType& self, nb::handle other) -> nb::object {
            try {
              return nb::bool_(self.type == element_type_in(other));
            } catch (const std::exception&) {
              return nb::borrow(Py_NotImplemented);  // `other` names no element type
            }
          },
          "other"_a.none())
      .def("__str__", [](const PyElementType& self) { return array::element_type_name(self.type); })
      .def("__repr__",
           [](const PyElementType& self) { return "crossdock.DType('" + array::element_type_name(self.type) + "')"; });
}

}  // namespace crossdock::python
