#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/core/export.h"
#include "crossdock/ipc/container.h"
#include "crossdock/ipc/describe.h"

namespace crossdock::session {

/// Looks at an Arrow IPC file or stream file without reading its data: of bodies, nothing but the lengths before
/// compressed buffers. Everything is read through the descriptor. One thread at a time.
class CROSSDOCK_EXPORT FileInspector {
 public:
  /// Reads all metadata. Throws as open_file().
  explicit FileInspector(const std::string& path, const ipc::Limits& limits = {});
  ~FileInspector();
  FileInspector(const FileInspector&) = delete;
  FileInspector& operator=(const FileInspector&) = delete;

  const ipc::Container& plan() const noexcept;
  std::int64_t size() const noexcept;  ///< Of the file, bytes.

  /// Message `index` of plan().messages. Throws InvalidArgumentError (no such message), FileChangedError,
  /// InvalidDataError, SystemError.
  ipc::BatchDescription describe(std::size_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
