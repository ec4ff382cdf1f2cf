#pragma once

#include <string>
#include <string_view>

#include "crossdock/device/driver.h"
#include "device/memory_handle.h"

/// The checks of arguments that several drivers make. `driver` is the driver's name, for errors.
namespace crossdock::device::checks {

/// Throws InvalidArgumentError for a queue of another device or native context.
void queue(std::string_view driver, const Queue& queue, const DeviceContext& context);
/// Throws ResourceError for more than 2^48 bytes.
void size(std::string_view driver, std::uint64_t size);
/// Throws InvalidArgumentError for memory that the driver can't reach, and for a null pointer to bytes. `what` names
/// the role of the memory in errors.
void memory(std::string_view driver, const BufferRef& memory, bool reachable, const char* what);
/// Throws InvalidArgumentError for a read-only target, different sizes, and ranges of addresses that overlap.
void copy(std::string_view driver, const BufferRef& to, const BufferRef& from);
/// Checks that a peer's handle is one of the driver with `opaque_size` opaque bytes, and that it names bytes of its
/// object, whose size stands at `size_at`. Returns that size. Throws ProtocolError.
std::uint64_t handle(std::string_view driver, const MemoryHandle& handle, std::size_t opaque_size, std::size_t size_at,
                     const std::string& where);

}  // namespace crossdock::device::checks
