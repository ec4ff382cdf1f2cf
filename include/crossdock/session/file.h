#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/file_reader.h"
#include "crossdock/ipc/options.h"
#include "crossdock/transport/options.h"

/// Reading and writing Arrow IPC files by path.
namespace crossdock::session {

/// Options of open_file().
struct OpenOptions {
  ipc::Limits limits{};                                          ///< What the file's messages may request.
  array::Validation validation = array::Validation::kStructure;  ///< kFull for a file from somebody who isn't trusted.
};

/// Opens an Arrow IPC file or stream file. The file is mapped read-only, and uncompressed batches are views of the
/// mapping. Each batch keeps the mapping alive, but not the descriptor, which belongs to the reader. Metadata is read
/// through the descriptor, into a copy. Large compressed bodies are decompressed on several threads.
///
/// The caller must not change the file while it is in use. The reader compares the file's size and modification time
/// before each batch and throws FileChangedError once they differ. Batches that were returned before see every byte
/// that is written into the file. If the file is truncated, access to the missing part raises SIGBUS, as with any
/// mapping. Replacing a file by renaming a new one over it, as write_file() does, has no effect on readers that have
/// the old one open.
///
/// Throws NotFoundError, PermissionError, InvalidArgumentError (not a regular file), InvalidDataError,
/// UnsupportedTypeError, FileChangedError, SystemError.
CROSSDOCK_EXPORT std::unique_ptr<ipc::FileReader> open_file(const std::string& path, const OpenOptions& options = {});

/// Options of write_file().
struct WriteOptions {
  ipc::ContainerForm form = ipc::ContainerForm::kFile;  ///< A pipe takes either.
  ipc::Codec codec = ipc::Codec::kNone;                 ///< Compressed batches can't be served as they are.
  std::optional<int> level{};  ///< Of the codec. Absent: its default for columns (LZ4 0, ZSTD 1).
  array::Metadata metadata{};  ///< The footer's custom metadata; a stream file has no place for it.
};

/// What write_file() has written.
struct WriteResult {
  std::int64_t batches = 0;  ///< Without those of dictionaries.
  std::int64_t rows = 0;     ///< Of all batches.
  std::int64_t bytes = 0;    ///< Size of the file.
};

/// Writes a whole stream to a file, directly from the memory of its buffers.
///
/// The data is written to a new file beside `path`, which is renamed to `path` once it is complete. Readers therefore
/// see either the old or the new file, and the source may be a view of the old one. The new file gets the mode of the
/// file that it replaces; symbolic links are followed. If this throws, nothing has changed. If `path` exists and isn't
/// a regular file (a pipe, a device), it is written directly; `interrupted` is called while a pipe has no reader or no
/// room.
///
/// Throws the errors of the source, InvalidArgumentError (a level that the codec doesn't have), InvalidDataError,
/// UnsupportedTypeError, PermissionError, NotFoundError (the folder doesn't exist), ResourceError (no space left),
/// InterruptedError, SystemError.
CROSSDOCK_EXPORT WriteResult write_file(array::BatchStream& source, const std::string& path,
                                        const WriteOptions& options = {},
                                        const transport::InterruptHook& interrupted = {});

}  // namespace crossdock::session
