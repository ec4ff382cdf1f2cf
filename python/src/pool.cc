#include "pool.h"

#include <cstdint>
#include <memory>

#include "crossdock/device/pool.h"
#include "crossdock/session/runtime.h"
#include "deferred.h"
#include "device/private_memory.h"
#include "gil.h"
#include "instance.h"
#include "numpy_allocator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

using device::Pool;

/// Memory of a pool, with the buffer protocol.
struct PoolBuffer {
  std::shared_ptr<std::byte> memory;
  std::uint64_t size;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const auto* const buffer = instance_of<PoolBuffer>(self);
  if (buffer == nullptr) return -1;
  return PyBuffer_FillInfo(view, self, buffer->memory.get(), static_cast<Py_ssize_t>(buffer->size), 0, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

class PyPool {
 public:
  PyPool(std::uint64_t limit, std::uint64_t idle)
      : pool_(session::Runtime::default_runtime()->make_pool({.limit = limit, .idle = idle})) {}
  ~PyPool() { pool_->close(); }
  PyPool(const PyPool&) = delete;
  PyPool& operator=(const PyPool&) = delete;

  PoolBuffer allocate(std::uint64_t size) {
    drain_deferred();  // objects that hold memory of the pool may wait there for the GIL
    return {without_gil([&] { return pool_->allocate(size); }), size};
  }
  nb::dict stats() const {
    const device::PoolStats stats = pool_->stats();
    nb::dict result;
    result["blocks"] = stats.blocks;
    result["bytes"] = stats.bytes;
    result["idle_bytes"] = stats.idle_bytes;
    result["lent_bytes"] = stats.lent_bytes;
    result["made"] = stats.made;
    result["reused"] = stats.reused;
    return result;
  }
  std::uint64_t trim(std::uint64_t keep) {
    return without_gil([&] { return pool_->trim(keep); });
  }
  const std::shared_ptr<Pool>& pool() const noexcept { return pool_; }
  void install_numpy(nb::handle api, std::uint64_t threshold) { numpy_allocator::install(api, pool_, threshold); }

 private:
  std::shared_ptr<Pool> pool_;
};

/// Returns whether publishing these bytes copies nothing: they are in a pool, or were received, and nobody has written
/// to them since they were lent or received. The caller keeps them.
bool needs_no_copy(std::uintptr_t address, std::uint64_t size) {
  const GilRelease release;
  // An address from Python. NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const pointer = reinterpret_cast<const void*>(address);
  if (const auto pool = session::Runtime::default_runtime()->find_pool(pointer, size)) {
    return pool->lend(pointer, size).has_value();
  }
  return device::received_memory(pointer, size).has_value();
}

}  // namespace

std::shared_ptr<Pool> pool_in(nb::handle pool) { return nb::cast<const PyPool&>(pool).pool(); }

void bind_pool(nb::module_& module) {
  nb::class_<PoolBuffer>(module, "PoolBuffer", nb::type_slots(buffer_slots),
                         "Memory of a Pool, with the buffer protocol. Freed with the last object that uses it.")
      .def("__len__", [](const PoolBuffer& self) { return self.size; })
      .def_prop_ro("nbytes", [](const PoolBuffer& self) { return self.size; })
      .def_prop_ro("address",
                   [](const PoolBuffer& self) { return reinterpret_cast<std::uintptr_t>(self.memory.get()); });

  nb::class_<PyPool>(module, "Pool")
      .def(nb::init<std::uint64_t, std::uint64_t>(), "limit"_a, "idle"_a)
      .def("allocate", &PyPool::allocate, "nbytes"_a)
      .def("stats", &PyPool::stats)
      .def("trim", &PyPool::trim, "keep"_a)
      .def("install_numpy", &PyPool::install_numpy, "api"_a, "threshold"_a);
  module.def("uninstall_numpy", numpy_allocator::uninstall);
  module.def("needs_no_copy", needs_no_copy, "address"_a, "nbytes"_a);
}

}  // namespace crossdock::python
