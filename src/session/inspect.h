#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/region.h"
#include "ipc/container.h"
#include "ipc/describe.h"
#include "session/file_source.h"

namespace crossdock::session {

/// Describes an Arrow IPC file or stream file without reading its data. Of the bodies, it reads only the lengths that
/// stand before compressed buffers. Everything is read through the descriptor. Use it from one thread at a time.
class FileInspector {
 public:
  /// Reads all metadata. Throws the errors of open_file().
  explicit FileInspector(const std::string& path, const ipc::Limits& limits = {})
      : name_(path),
        limits_(limits),
        source_(device::Region::open_file(path), path),
        plan_(ipc::read_container(source_, path, limits)) {}

  const ipc::Container& plan() const noexcept { return plan_; }
  std::int64_t size() const noexcept { return source_.size(); }  ///< Of the file, in bytes.

  /// Describes message `index` of plan().messages. Throws InvalidArgumentError (no such message), FileChangedError,
  /// InvalidDataError, SystemError.
  ipc::BatchDescription describe(std::size_t index);

 private:
  std::string name_;
  ipc::Limits limits_;
  FileSource source_;
  ipc::Container plan_;
};

}  // namespace crossdock::session
