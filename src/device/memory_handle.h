#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/unique_fd.h"

namespace crossdock::device {

/// A handle by which memory is passed to another process: opaque bytes, a descriptor, or both, as the driver needs.
/// Move-only.
struct MemoryHandle {
  std::string driver;             ///< The driver that made the handle. Only this driver can read it.
  std::vector<std::byte> opaque;  ///< Bytes to pass on unchanged.
  UniqueFd descriptor;            ///< A descriptor to pass over a Unix socket; empty if the driver needs none.
  std::uint64_t offset = 0;       ///< Offset of the memory in the object that the handle names, in bytes.
  std::uint64_t size = 0;         ///< Size of the memory, in bytes.
};

}  // namespace crossdock::device
