#include "device.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "crossdock/core/error.h"
#include "tensor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {

using device::Device;
using device::DeviceType;

nb::object device_object(const Device& device) { return nb::cast(device); }

Device device_in(nb::handle object) {
  Device* own = nullptr;
  if (nb::try_cast(object, own) && own != nullptr) return *own;
  if (PyUnicode_Check(object.ptr()) != 0) return device::parse_device(utf8_of(object));
  if (PyTuple_Check(object.ptr()) != 0 && nb::len(object) == 2) {
    const long type = PyLong_AsLong(nb::object(object[0]).ptr());
    const long long id = type == -1 ? 0 : PyLong_AsLongLong(nb::object(object[1]).ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (type < INT32_MIN || type > INT32_MAX) throw InvalidArgumentError("a device type must be a number of 32 bits");
    return {.type = static_cast<DeviceType>(type), .id = id};
  }
  throw InvalidArgumentError(
      "a device must be a crossdock.Device, a text as in \"cuda:0\", or DLPack's pair of numbers, not " +
      excerpt(nb::type_name(object.type()).c_str()) + "; pass a queue as queue=, or use copy_to()");
}

void bind_device(nb::module_& module) {
  nb::class_<Device>(module, "Device",
                     "The device of memory: a type and an id, with the numbers of Arrow and DLPack. Immutable.")
      .def(
          "__init__", [](Device* self, nb::handle of) { new (self) Device(device_in(of)); }, "of"_a.none(),
          "of: a text (\"cpu\", \"cuda:1\"), or a pair of numbers: type and id.\n\n"
          "Raises `InvalidArgumentError` for what names no device. The device need not exist.")
      .def_prop_ro(
          "type", [](const Device& self) { return device::device_type_name(self.type); },
          "The name of the type (\"cuda\"); empty for a type without a name.")
      .def_prop_ro(
          "type_id", [](const Device& self) { return static_cast<std::int32_t>(self.type); }, "The number of the type.")
      .def_prop_ro(
          "id", [](const Device& self) { return self.id; },
          "The number of the device among those of its type; -1 for the CPU.")
      .def("__hash__", [](const Device& self) { return static_cast<Py_hash_t>(std::hash<Device>()(self) >> 1); })
      .def(
          "__eq__",
          [](const Device& self, nb::handle other) -> nb::object {
            try {
              return nb::bool_(self == device_in(other));
            } catch (const std::exception&) {
              return nb::borrow(Py_NotImplemented);  // `other` names no device
            }
          },
          "other"_a.none())
      .def("__str__", [](const Device& self) { return device::to_string(self); })
      .def("__repr__", [](const Device& self) { return "crossdock.Device('" + device::to_string(self) + "')"; });
  module.attr("Device").attr("__module__") = "crossdock";
}

}  // namespace crossdock::python
