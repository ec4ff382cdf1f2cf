#include "frame.h"

#include <cstdint>

#include "../instance.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// The address of a frame without bytes. Some consumers don't accept null.
std::byte nowhere[64];

std::byte* bytes_of(const PyPeerFrame& self) noexcept {
  if (self.frame.size == 0) return nowhere;
  if (self.writable) return self.frame.writable;
  return const_cast<std::byte*>(self.frame.data);  // exported read-only
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const auto* const frame = instance_of<PyPeerFrame>(self);
  if (frame == nullptr) return -1;
  return PyBuffer_FillInfo(view, self, bytes_of(*frame), static_cast<Py_ssize_t>(frame->frame.size),
                           frame->writable ? 0 : 1, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

nb::list list_of_frames(const peers::Message& message, bool writable) {
  nb::list frames;
  for (const peers::Frame& frame : message.frames()) frames.append(nb::cast(PyPeerFrame{frame, writable}));
  return frames;
}

void bind_peer_frame(nb::module_& module) {
  nb::class_<PyPeerFrame>(module, "PeerFrame", nb::is_weak_referenceable(), nb::type_slots(slots),
                          "A frame of a message, with the buffer protocol. Its readers keep its memory alive.")
      .def("__len__", [](const PyPeerFrame& self) { return self.frame.size; })
      .def_prop_ro(
          "nbytes", [](const PyPeerFrame& self) { return self.frame.size; }, "The number of bytes.")
      .def_prop_ro(
          "address", [](const PyPeerFrame& self) { return reinterpret_cast<std::uintptr_t>(bytes_of(self)); },
          "The address of the first byte in this process, for other libraries.")
      .def_prop_ro(
          "mapped", [](const PyPeerFrame& self) { return self.frame.mapped; },
          "True if it came by address: it lies in the sender's memory.")
      .def("__repr__", [](const PyPeerFrame& self) {
        return nb::str("<crossdock.peers.Frame: {} bytes{}>")
            .format(self.frame.size, self.frame.mapped ? ", mapped" : "");
      });
}

}  // namespace crossdock::python
