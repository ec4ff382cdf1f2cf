#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ipc/container.h"
#include "ipc/describe.h"

namespace crossdock::session {

/// Describes an Arrow IPC file or stream file without reading its data. Of the bodies, it reads only the lengths that
/// stand before compressed buffers. Everything is read through the descriptor. Use it from one thread at a time.
class FileInspector {
 public:
  /// Reads all metadata. Throws the errors of open_file().
  explicit FileInspector(const std::string& path, const ipc::Limits& limits = {});
  ~FileInspector();
  FileInspector(const FileInspector&) = delete;
  FileInspector& operator=(const FileInspector&) = delete;

  const ipc::Container& plan() const noexcept;
  std::int64_t size() const noexcept;  ///< Of the file, in bytes.

  /// Describes message `index` of plan().messages. Throws InvalidArgumentError (no such message), FileChangedError,
  /// InvalidDataError, SystemError.
  ipc::BatchDescription describe(std::size_t index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::session
