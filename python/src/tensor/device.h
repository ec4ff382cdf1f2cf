#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/device/device.h"

namespace crossdock::python {

/// Makes a crossdock.Device.
nanobind::object device_object(const device::Device& device);

/// Converts an object to a device: a Device, its text ("cpu", "cuda:1"), or DLPack's pair of numbers. Throws
/// InvalidArgumentError.
device::Device device_in(nanobind::handle object);

void bind_device(nanobind::module_& module);

}  // namespace crossdock::python
