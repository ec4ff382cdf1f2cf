#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// Where the bytes of a file come from: its metadata is read through this, copied out, so that a file that is cut
/// meanwhile gives an error and not a signal. Implementations may be used by several threads at once.
class CROSSDOCK_EXPORT ContainerSource {
 public:
  virtual ~ContainerSource() = default;
  virtual std::int64_t size() const = 0;
  /// Fills `to` from the byte at `offset` on, all of which lies within size(). Throws what its kind of source has:
  /// FileChangedError where the bytes aren't there any more, SystemError.
  virtual void read(std::int64_t offset, MutableByteSpan to) const = 0;
};

/// Bytes in memory that somebody else keeps, and that don't change.
class CROSSDOCK_EXPORT MemorySource final : public ContainerSource {
 public:
  explicit MemorySource(ByteSpan bytes) noexcept : bytes_(bytes) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  void read(std::int64_t offset, MutableByteSpan to) const override;

 private:
  ByteSpan bytes_;
};

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
  bool has_footer = false;                      ///< The file form, not a stream file.
  Endianness endianness = Endianness::kLittle;  ///< Of what bodies hold; metadata is always little-endian.
  bool compressed = false;                      ///< Whether any body is.
  int version = 5;                  ///< The first message's; of a file without batches, the footer's: 4 or 5.
  array::Metadata custom_metadata;  ///< The footer's, or else the schema message's.
  std::vector<ContainerMessage> messages;
  std::int64_t num_rows = 0;
};

/// Reads the plan of a whole file; touches metadata only. The file may be hostile: every offset is checked against its
/// size, every batch header as by Message::batch. Reads footers and both encapsulation forms (with and without the
/// 0xFFFFFFFF marker). Delta dictionaries are listed as they come, in stream files replaced ones too. A body is placed
/// by the length that its own message says, compressed or not. `name` is for messages. Throws InvalidDataError (not an
/// Arrow file, truncated, malformed, a dictionary replaced in the file form), UnsupportedTypeError (types, codecs and
/// metadata versions that aren't known), and what `source` throws.
CROSSDOCK_EXPORT Container read_container(const ContainerSource& source, const std::string& name, const Limits& limits);
CROSSDOCK_EXPORT Container read_container(ByteSpan file, const std::string& name, const Limits& limits);

/// Reads the metadata of one listed message into `*memory`, which is reused, and parses it there. A source that has
/// changed since the plan was made gives FileChangedError, or InvalidDataError where it can't be told apart.
CROSSDOCK_EXPORT Message read_message(const ContainerSource& source, const ContainerMessage& place, const char* where,
                                      const Limits& limits, std::vector<std::uint64_t>* memory);

}  // namespace crossdock::ipc
