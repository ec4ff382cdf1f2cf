#include "dpnp_array.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "c_descriptor.h"
#include "names.h"
#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::ElementType;
using array::Tensor;
using array::TypeCode;

constexpr const char* kArrayModule = "dpnp.tensor._usmarray";
constexpr const char* kMemoryModule = "dpctl.memory._memory";

/// `struct PyUSMArrayObject` of dpnp 0.20, as declared in its header dpnp/tensor/_usmarray.h.
struct UsmNdarray {
  PyObject ob_base;
  void* methods;
  char* data;  ///< The first element.
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  ///< In elements; null for an array without gaps.
  int type_number;
  int flags;
  PyObject* base;  ///< The dpctl object that owns the memory.
  PyObject* array_namespace;
  PyObject* weak_references;
};

struct NumberedType {
  const char* name;
  TypeCode code;
  std::size_t bytes;
};
constexpr NumberedType kTypes[] = {
    {"UAR_BOOL", TypeCode::kBool, 1},
    {"UAR_BYTE", TypeCode::kInt, 1},
    {"UAR_UBYTE", TypeCode::kUInt, 1},
    {"UAR_SHORT", TypeCode::kInt, sizeof(short)},
    {"UAR_USHORT", TypeCode::kUInt, sizeof(short)},
    {"UAR_INT", TypeCode::kInt, sizeof(int)},
    {"UAR_UINT", TypeCode::kUInt, sizeof(int)},
    {"UAR_LONG", TypeCode::kInt, sizeof(long)},
    {"UAR_ULONG", TypeCode::kUInt, sizeof(long)},
    {"UAR_LONGLONG", TypeCode::kInt, sizeof(long long)},
    {"UAR_ULONGLONG", TypeCode::kUInt, sizeof(long long)},
    {"UAR_HALF", TypeCode::kFloat, 2},
    {"UAR_FLOAT", TypeCode::kFloat, sizeof(float)},
    {"UAR_DOUBLE", TypeCode::kFloat, sizeof(double)},
    {"UAR_CFLOAT", TypeCode::kComplex, 2 * sizeof(float)},
    {"UAR_CDOUBLE", TypeCode::kComplex, 2 * sizeof(double)},
};

/// Returns the address of a C symbol that a Cython module exports under this name and type. Returns null, without a
/// Python error, if there is none.
void* c_symbol(nb::handle module, const char* name, const char* type) {
  const nb::object symbols = nb::getattr(module, "__pyx_capi__", nb::none());
  if (PyDict_Check(symbols.ptr()) == 0) return nullptr;
  PyObject* const capsule = PyDict_GetItemString(symbols.ptr(), name);
  if (capsule == nullptr || PyCapsule_IsValid(capsule, type) == 0) return nullptr;
  return PyCapsule_GetPointer(capsule, type);
}

std::optional<int> c_number(nb::handle module, const char* name) {
  const void* const found = c_symbol(module, name, "int");
  if (found == nullptr) return std::nullopt;
  int number = 0;
  std::memcpy(&number, found, sizeof number);
  return number;
}

/// The types, functions and constants of dpnp and dpctl that are needed to read an array. Guarded by the GIL. The
/// references to types are never dropped.
class Known {
 public:
  /// Returns true if the type is dpnp's array, with a structure that can be read. Throws nb::python_error.
  bool is_array(PyTypeObject* type) {
    if (type == array_type_) return true;
    if (useless_ || array_type_ != nullptr || !has_name(type, "dpnp.tensor._usmarray.usm_ndarray")) {
      return false;
    }
    useless_ = !look_up(type);
    return !useless_;
  }
  bool is_memory(PyObject* object) const noexcept {
    return object != nullptr && PyObject_TypeCheck(object, memory_type_) != 0;
  }
  void* queue_of(PyObject* memory) const noexcept { return queue_of_(memory); }
  bool is_writable(int flags) const noexcept { return (flags & writable_) != 0; }
  bool is_fortran(int flags) const noexcept { return (flags & c_contiguous_) == 0 && (flags & f_contiguous_) != 0; }
  const ElementType* type_of(int number) const noexcept {
    const bool listed = number >= 0 && static_cast<std::size_t>(number) < types_.size();
    return listed && types_[static_cast<std::size_t>(number)] ? &*types_[static_cast<std::size_t>(number)] : nullptr;
  }

  bool proven() const noexcept { return proven_; }
  void prove(bool right) noexcept {
    proven_ = right;
    if (right) return;
    useless_ = true;
    array_type_ = nullptr;
  }

 private:
  bool look_up(PyTypeObject* type) {
    const auto size = static_cast<Py_ssize_t>(sizeof(UsmNdarray));
    if (!is_immutable(type) || !has_size(type, size)) return false;
    const nb::object arrays = nb::steal(PyImport_GetModule(nb::str(kArrayModule).ptr()));
    const nb::object memories = nb::steal(PyImport_GetModule(nb::str(kMemoryModule).ptr()));
    if (!arrays.is_valid() || !memories.is_valid()) {
      PyErr_Clear();
      return false;
    }
    // Rejects another extension's class of the same name.
    if (nb::getattr(arrays, "usm_ndarray", nb::none()).ptr() != reinterpret_cast<PyObject*>(type)) return false;
    const nb::object memory = nb::getattr(memories, "_Memory", nb::none());
    const auto writable = c_number(arrays, "USM_ARRAY_WRITABLE");
    const auto c_contiguous = c_number(arrays, "USM_ARRAY_C_CONTIGUOUS");
    const auto f_contiguous = c_number(arrays, "USM_ARRAY_F_CONTIGUOUS");
    queue_of_ = reinterpret_cast<QueueOf>(
        c_symbol(memories, "Memory_GetQueueRef", "DPCTLSyclQueueRef (struct Py_MemoryObject *)"));
    const bool is_type = PyType_Check(memory.ptr()) != 0;
    if (!is_type || !is_immutable(reinterpret_cast<PyTypeObject*>(memory.ptr())) || !writable || !c_contiguous ||
        !f_contiguous || queue_of_ == nullptr) {
      return false;
    }
    for (const NumberedType& one : kTypes) {
      const auto number = c_number(arrays, one.name);
      if (!number || *number < 0 || static_cast<std::size_t>(*number) >= types_.size()) return false;
      types_[static_cast<std::size_t>(*number)] =
          ElementType{.code = one.code, .bits = static_cast<std::uint8_t>(8 * one.bytes)};
    }
    writable_ = *writable;
    c_contiguous_ = *c_contiguous;
    f_contiguous_ = *f_contiguous;
    memory_type_ = reinterpret_cast<PyTypeObject*>(Py_NewRef(memory.ptr()));
    array_type_ = reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(type)));
    return true;
  }

  using QueueOf = void* (*)(PyObject*);
  bool useless_ = false;
  bool proven_ = false;
  PyTypeObject* array_type_ = nullptr;
  PyTypeObject* memory_type_ = nullptr;
  QueueOf queue_of_ = nullptr;
  int writable_ = 0;
  int c_contiguous_ = 0;
  int f_contiguous_ = 0;
  std::array<std::optional<ElementType>, 32> types_{};
};
Known& known() {
  static Known instance;
  return instance;
}

/// Sets the strides, in bytes, of a contiguous array without a list of strides. An overflow here is harmless: the
/// checks of every import find it.
void set_strides(array::Extents* extents, std::int64_t itemsize, bool fortran) {
  const auto strides = extents->strides();
  const auto shape = extents->shape();
  auto stride = static_cast<std::uint64_t>(itemsize);
  for (std::size_t n = 0; n < shape.size(); ++n) {
    const std::size_t i = fortran ? n : shape.size() - 1 - n;
    strides[i] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
  }
}

}  // namespace

std::optional<DpnpArray> dpnp_array(PyObject* object) {
  nb::object held;
  if (!known().is_array(Py_TYPE(object))) {
    held = optional_attribute(object, names::__usm_ndarray__());
    if (!held.is_valid() || !known().is_array(Py_TYPE(held.ptr()))) {
      return std::nullopt;
    }
    object = held.ptr();
  }
  const auto& array = *reinterpret_cast<const UsmNdarray*>(object);
  const ElementType* const type = known().type_of(array.type_number);
  if (type == nullptr || array.ndim < 0 || array.ndim > array::kMaxTensorDimensions || !known().is_memory(array.base) ||
      (array.ndim > 0 && array.shape == nullptr)) {
    return std::nullopt;
  }
  DpnpArray read{.tensor = {}, .queue = known().queue_of(array.base), .proven = known().proven()};
  if (read.queue == nullptr) return std::nullopt;
  Tensor& tensor = read.tensor;
  tensor.type = *type;
  tensor.extents = array::Extents(array.ndim);
  const auto count = static_cast<std::size_t>(array.ndim);
  std::copy_n(array.shape, count, tensor.extents.shape().begin());
  if (array.strides == nullptr) {
    set_strides(&tensor.extents, type->itemsize(), known().is_fortran(array.flags));
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      if (__builtin_mul_overflow(std::int64_t{array.strides[i]}, type->itemsize(), &tensor.extents.strides()[i])) {
        return std::nullopt;
      }
    }
  }
  tensor.data = array.data;
  tensor.read_only = !known().is_writable(array.flags);
  tensor.owner = owner_of(object);
  return read;
}

void prove_dpnp_array(const DpnpArray& array, const Tensor& said) {
  const Tensor& read = array.tensor;
  const bool empty = said.size() == 0;
  const bool same = read.type == said.type && std::ranges::equal(read.shape(), said.shape()) &&
                    (empty || (read.data == said.data && std::ranges::equal(read.strides(), said.strides()))) &&
                    read.read_only == said.read_only;
  // An array without elements or dimensions isn't sufficient to prove that the structure is right.
  if (!same || (!empty && said.ndim() > 0)) known().prove(same);
}

}  // namespace crossdock::python
