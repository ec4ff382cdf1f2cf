#include "arena.h"

#include <cstdint>
#include <memory>

#include "crossdock/device/arena.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/session/runtime.h"
#include "deferred.h"
#include "device/region.h"
#include "gil.h"
#include "instance.h"
#include "offload/selector.h"
#include "tensor/device.h"
#include "tensor/element_type.h"
#include "tensor/queue.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using device::Arena;

/// A part of an arena, with the buffer protocol. Keeps the arena's memory alive.
struct ArenaBuffer {
  std::shared_ptr<Arena> arena;
  std::byte* data;
  std::uint64_t size;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const auto* const buffer = instance_of<ArenaBuffer>(self);
  if (buffer == nullptr) return -1;
  const bool read_only = buffer->arena->frozen() && buffer->arena->when_frozen() == Arena::Frozen::kReadOnly;
  return PyBuffer_FillInfo(view, self, buffer->data, static_cast<Py_ssize_t>(buffer->size), read_only ? 1 : 0, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

class PyArena {
 public:
  PyArena(std::uint64_t reserve, bool copy_on_write) {
    drain_deferred();
    const Arena::Frozen frozen = copy_on_write ? Arena::Frozen::kCopyOnWrite : Arena::Frozen::kReadOnly;
    arena_ = session::Runtime::default_runtime()->make_arena(reserve, frozen);
  }

  ArenaBuffer allocate(std::uint64_t size) {
    // Every buffer gets its own address, even an empty one, so that it is recognised as the arena's.
    std::byte* const data = arena_->allocate(size == 0 ? 1 : size);
    return {arena_, data, size};
  }
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }
  bool frozen() const noexcept { return arena_->frozen(); }
  std::uint64_t nbytes() const noexcept { return arena_->size(); }

  void on_freeze(nb::handle callable) {
    arena_->on_freeze([owner = std::make_shared<PyOwner>(callable.ptr())] {
      if (interpreter_ending()) return;
      const GilAcquire gil("freezing an arena");
      PyObject* const result = PyObject_CallNoArgs(owner->get());
      if (result == nullptr) PyErr_WriteUnraisable(owner->get());
      Py_XDECREF(result);
    });
  }

 private:
  std::shared_ptr<Arena> arena_;
};

class PyDeviceArena {
 public:
  PyDeviceArena(nb::handle device, std::uint64_t reserve) {
    drain_deferred();
    const device::Device target = select_device(device);
    arena_ = without_gil([&] { return session::Runtime::default_runtime()->make_arena(target, reserve); });
  }

  nb::object tensor(nb::handle shape, nb::handle dtype, nb::handle queue) {
    drain_deferred();
    const device::Queue on = queue_for(*arena_, queue);
    const array::ElementType type = element_type_in(dtype);
    const std::vector<std::int64_t> extents = shape_in(shape.ptr());
    return checked(new_tensor(without_gil([&] { return exchange::empty(type, extents, arena_, on); })));
  }
  const std::shared_ptr<device::DeviceArena>& arena() const noexcept { return arena_; }
  nb::object device() const { return device_object(arena_->context()->device()); }
  bool frozen() const noexcept { return arena_->frozen(); }
  std::uint64_t nbytes() const noexcept { return arena_->size(); }

 private:
  std::shared_ptr<device::DeviceArena> arena_;
};

}  // namespace

std::shared_ptr<Arena> arena_in(nb::handle arena) { return nb::cast<const PyArena&>(arena).arena(); }

device::Queue queue_for(const device::DeviceArena& arena, nb::handle queue) {
  const device::Device device = arena.context()->device();
  const std::optional<device::Queue> named = queue_in(queue);
  if (!named) return drivers().default_queue(device);
  require_queue_of(*named, device);
  if (named->native_context() == arena.context()->native_context()) return *named;
  throw InvalidArgumentError("the queue is in another context than the Arena's memory, which is in the usual one of " +
                             device::to_string(device));
}

std::shared_ptr<device::DeviceArena> device_arena_or_null(nb::handle object) {
  const nb::object native = nb::getattr(object, "_native", nb::none());
  PyDeviceArena* arena = nullptr;
  return nb::try_cast(native, arena) && arena != nullptr ? arena->arena() : nullptr;
}

void bind_arena(nb::module_& module) {
  nb::class_<ArenaBuffer>(module, "ArenaBuffer", nb::type_slots(buffer_slots),
                          "Memory of an Arena, with the buffer protocol. Read-only after the arena is frozen.")
      .def("__len__", [](const ArenaBuffer& self) { return self.size; })
      .def_prop_ro("nbytes", [](const ArenaBuffer& self) { return self.size; })
      .def_prop_ro("address", [](const ArenaBuffer& self) { return reinterpret_cast<std::uintptr_t>(self.data); });

  nb::class_<PyArena>(module, "Arena")
      .def(nb::init<std::uint64_t, bool>(), "reserve"_a, "copy_on_write"_a)
      .def("allocate", &PyArena::allocate, "nbytes"_a)
      .def_prop_ro("frozen", &PyArena::frozen)
      .def_prop_ro("nbytes", &PyArena::nbytes)
      .def("on_freeze", &PyArena::on_freeze, "callable"_a);

  nb::class_<PyDeviceArena>(module, "DeviceArena")
      .def(nb::init<nb::handle, std::uint64_t>(), "device"_a, "reserve"_a)
      .def("tensor", &PyDeviceArena::tensor, "shape"_a, "dtype"_a, "queue"_a.none())
      .def_prop_ro("device", &PyDeviceArena::device)
      .def_prop_ro("frozen", &PyDeviceArena::frozen)
      .def_prop_ro("nbytes", &PyDeviceArena::nbytes);
}

}  // namespace crossdock::python
