#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Gives the bytes of a file. Metadata is read through it into a copy, so that a file that is truncated meanwhile
/// causes an error and not a signal. Several threads may use an implementation at once.
class ContainerSource {
 public:
  virtual ~ContainerSource() = default;
  virtual std::int64_t size() const = 0;
  /// Fills `to` from the byte at `offset` on. All bytes lie within size(). Throws the errors of its kind of source:
  /// FileChangedError if the bytes don't exist any more, SystemError.
  virtual void read(std::int64_t offset, MutableByteSpan to) const = 0;
};

/// Bytes in memory that the caller keeps alive, and that don't change.
class MemorySource final : public ContainerSource {
 public:
  explicit MemorySource(ByteSpan bytes) noexcept : bytes_(bytes) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  void read(std::int64_t offset, MutableByteSpan to) const override;

 private:
  ByteSpan bytes_;
};

/// The place of one message in a file or stream file.
struct ContainerMessage {
  MessageKind kind;
  std::int64_t metadata_offset;  ///< Offset of the flatbuffer from the file's start.
  std::int64_t metadata_length;
  std::int64_t body_offset;  ///< From the file's start.
  std::int64_t body_length;
};

/// The plan of an Arrow IPC file ("ARROW1", with a footer) or stream file: dictionaries and record batches in the order
/// in which a stream would send them. The schema message itself is not listed.
struct Container {
  std::shared_ptr<const array::Schema> schema;
  bool has_footer = false;                      ///< True for the file form, false for a stream file.
  Endianness endianness = Endianness::kLittle;  ///< Of the bodies; metadata is always little-endian.
  bool compressed = false;                      ///< True if any body is compressed.
  int version = 5;                  ///< Of the first message, or of the footer if there is no batch: 4 or 5.
  array::Metadata custom_metadata;  ///< The footer's, else the schema message's.
  std::vector<ContainerMessage> messages;
  std::int64_t num_rows = 0;
};

/// Reads the plan of a whole file. Reads metadata only.
///
/// The file may be hostile: checks every offset against the file's size, and every batch header as Message::batch does.
/// Reads footers, and both encapsulation forms (with and without the 0xFFFFFFFF marker). Lists delta dictionaries in
/// their order; in stream files replaced dictionaries too. The length of a body is that in its own message, compressed
/// or not. `name` is for error messages.
///
/// Throws InvalidDataError (not an Arrow file, truncated, malformed, a dictionary replaced in the file form),
/// UnsupportedTypeError (unknown types, codecs and metadata versions), and the errors of `source`.
Container read_container(const ContainerSource& source, const std::string& name, const Limits& limits);
Container read_container(ByteSpan file, const std::string& name, const Limits& limits);

/// Reads the metadata of one listed message into `*memory`, which is reused, and parses it there. If the source has
/// changed since the plan was made, throws FileChangedError, or InvalidDataError if the change can't be told from bad
/// data.
Message read_message(const ContainerSource& source, const ContainerMessage& place, const char* where,
                     const Limits& limits, std::vector<std::uint64_t>* memory);

}  // namespace crossdock::ipc
