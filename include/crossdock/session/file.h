#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crossdock/array/stream.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/file_reader.h"
#include "crossdock/ipc/file_writer.h"
#include "crossdock/transport/transport.h"

/// Arrow IPC files by their path.
namespace crossdock::session {

struct OpenOptions {
  ipc::Limits limits{};
  array::Validation validation = array::Validation::kStructure;
};

/// Opens an Arrow IPC file or stream file: mapped read-only, so that uncompressed batches are views of it, each of
/// which keeps the mapping (not the descriptor; the reader keeps that). Metadata is read through the descriptor, copied
/// out. Large compressed bodies are decompressed on several threads.
///
/// The file is the caller's to keep as it is: its size and modification time are compared before each batch, and
/// FileChangedError thrown once they differ, but batches that were given out see what is written into the file, and if
/// it is cut short, touching what is gone is a SIGBUS, as with any mapping. Whoever replaces files by renaming new ones
/// over them (write_file does) changes nothing for who has them open.
///
/// Throws NotFoundError, PermissionError, InvalidArgumentError (not a regular file), and what ipc::read_container does.
CROSSDOCK_EXPORT std::unique_ptr<ipc::FileReader> open_file(const std::string& path, const OpenOptions& options = {});

struct WriteOptions {
  ipc::ContainerForm form = ipc::ContainerForm::kFile;
  ipc::Codec codec = ipc::Codec::kNone;
  std::optional<int> level{};  ///< See ipc::Compressor.
  array::Metadata metadata{};  ///< See ipc::FileWriterOptions.
};

struct WriteResult {
  std::int64_t batches = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  ///< Of the file.
};

/// Writes a whole stream, gathered from where its buffers lie. A new file is written beside `path` and renamed to it
/// once it is whole (with the mode of a file that it replaces; links are followed): readers see the old one or the new
/// one, and the source may be a view of the old one. After a throw nothing has changed. What is there and isn't a
/// regular file (a pipe, a device) is written to directly; the hook is asked while a pipe has no reader, or no room.
/// Throws what the source throws, what ipc::FileWriter does, PermissionError, NotFoundError (no such folder),
/// ResourceError (no space), InterruptedError, SystemError.
CROSSDOCK_EXPORT WriteResult write_file(array::BatchStream& source, const std::string& path,
                                        const WriteOptions& options = {},
                                        const transport::InterruptHook& interrupted = {});

}  // namespace crossdock::session
