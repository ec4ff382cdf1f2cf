#include "crossdock/device/driver.h"

#include "crossdock/core/error.h"
#include "device/memory_handle.h"

namespace crossdock::device {

MemoryHandle Context::export_memory(const BufferRef& /*memory*/) {
  throw UnsupportedError("the " + std::string(driver_name()) + " driver can't export memory to other processes");
}

Buffer Context::import_memory(MemoryHandle handle, const std::string& where) {
  throw ProtocolError(where + ": the " + std::string(driver_name()) +
                      " driver was given a memory handle of the driver \"" + handle.driver +
                      "\", but it can't import memory");
}

}  // namespace crossdock::device
