#include "device/internal/driver_checks.h"

#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::device::checks {

namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 48;

[[noreturn]] void fail(std::string_view driver, const std::string& what) {
  throw InvalidArgumentError("the " + std::string(driver) + " driver was " + what);
}

}  // namespace

void queue(std::string_view driver, const Queue& queue, const DeviceContext& context) {
  const bool same_device = queue.device() == context.device;
  if (same_device && queue.native_context() == context.native) return;
  fail(driver, "given a queue of " + to_string(queue.device()) + (same_device ? " in another context" : "") +
                   " for work on " + to_string(context.device));
}

void size(std::string_view driver, std::uint64_t size) {
  if (size <= kMost) return;
  throw ResourceError("the " + std::string(driver) + " driver can't allocate " + std::to_string(size) +
                      " bytes: more than 2^48");
}

void memory(std::string_view driver, const BufferRef& memory, bool reachable, const char* what) {
  if (!reachable) fail(driver, "given memory of " + to_string(memory.device) + " as " + what);
  if (memory.data == nullptr && memory.size != 0) {
    fail(driver, "given a null pointer to " + std::to_string(memory.size) + " bytes as " + what);
  }
}

void copy(std::string_view driver, const BufferRef& to, const BufferRef& from) {
  if (to.read_only) fail(driver, "given read-only memory as the target of a copy");
  if (to.size != from.size) {
    fail(driver,
         "asked to copy " + std::to_string(from.size) + " bytes into memory of " + std::to_string(to.size) + " bytes");
  }
  if (to.overlaps(from)) fail(driver, "asked for a copy whose source and target overlap");
}

std::uint64_t handle(std::string_view driver, const MemoryHandle& handle, std::size_t opaque_size, std::size_t size_at,
                     const std::string& where) {
  if (handle.driver != driver) {
    throw ProtocolError(where + ": the " + std::string(driver) + " driver was given a memory handle of the driver \"" +
                        handle.driver + "\"");
  }
  if (handle.opaque.size() != opaque_size) {
    throw ProtocolError(where + ": a memory handle of the " + std::string(driver) + " driver has " +
                        std::to_string(handle.opaque.size()) + " bytes instead of " + std::to_string(opaque_size));
  }
  const auto whole = load_le<std::uint64_t>(handle.opaque.data() + size_at);
  if (handle.size == 0 || whole > kMost || handle.offset > whole || handle.size > whole - handle.offset) {
    throw ProtocolError(where + ": a memory handle names " + std::to_string(handle.size) + " bytes at " +
                        std::to_string(handle.offset) + " of " + std::to_string(whole));
  }
  return whole;
}

}  // namespace crossdock::device::checks
