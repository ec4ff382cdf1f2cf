#include "usm_type.h"

#include <nanobind/stl/string.h>

#include <string>

#include "../tensor/tensor.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace nb = nanobind;

namespace crossdock::python {

using device::MemoryKind;

const char* usm_type_name(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::kHost: return "host";
    case MemoryKind::kShared: return "shared";
    default: return "device";
  }
}

std::optional<MemoryKind> usm_type_in(PyObject* object) {
  if (!given(object)) return std::nullopt;
  if (PyUnicode_Check(object) == 0) {
    throw_type_error(object, "usm_type must be \"device\", \"shared\", \"host\" or None");
  }
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kShared, MemoryKind::kHost}) {
    if (PyUnicode_CompareWithASCIIString(object, usm_type_name(kind)) == 0) return kind;
  }
  throw InvalidArgumentError("usm_type must be \"device\", \"shared\", \"host\" or None, not " +
                             excerpt(nb::cast<std::string>(nb::repr(object))));
}

std::optional<MemoryKind> usm_type_of(const array::Tensor& tensor) noexcept {
  if (tensor.device.type == device::DeviceType::kCpu) return std::nullopt;
  return tensor.kind;
}

}  // namespace crossdock::python
