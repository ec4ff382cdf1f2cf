#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// Where one message of a file or stream file is.
struct ContainerMessage {
  MessageKind kind;
  std::int64_t metadata_offset;  ///< Of the flatbuffer, from the file's start.
  std::int64_t metadata_length;
  std::int64_t body_offset;  ///< From the file's start.
  std::int64_t body_length;
};

/// The plan of an Arrow IPC file ("ARROW1", with a footer) or stream file: dictionaries and record batches in the order
/// in which a stream would send them. The schema message itself is not listed.
struct Container {
  std::shared_ptr<const array::Schema> schema;
  std::vector<ContainerMessage> messages;
  std::int64_t num_rows = 0;
};

/// Reads the plan from a whole file in memory; touches metadata only. The file may be hostile: every offset is checked
/// against its size, every batch header as by Message::batch. Reads footers and both encapsulation forms (with and
/// without the 0xFFFFFFFF marker). Delta dictionaries are listed as they come, in stream files replaced ones too. A
/// body is placed by the length that its own message says. The file mustn't change meanwhile. `name` is for messages.
/// Throws InvalidDataError (not an Arrow file, truncated, malformed, a dictionary replaced in the file form),
/// UnsupportedTypeError (types, compression, metadata versions, endianness).
CROSSDOCK_EXPORT Container read_container(ByteSpan file, const std::string& name, const Limits& limits);

}  // namespace crossdock::ipc
