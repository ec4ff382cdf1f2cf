#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "ipc/metadata.h"

/// Descriptions of metadata, for people and for programs that inspect it. Not needed to read data.
namespace crossdock::ipc {

/// Returns "schema", "dictionary", "record batch", "tensor", "sparse tensor".
std::string_view kind_name(MessageKind kind) noexcept;
/// Returns "none", "lz4", "zstd".
std::string_view compression_name(Codec codec) noexcept;
/// Returns "validity", "int32 offsets", "views", ... The name of a variadic buffer of a view is "variadic".
std::string_view buffer_kind_name(array::BufferKind kind) noexcept;

/// A summary of a message, without the schema that its buffers belong to.
struct MessageSummary {
  MessageKind kind = MessageKind::kSchema;
  int version = 5;  ///< 4 or 5.
  std::int64_t body_length = 0;
  std::size_t n_metadata = 0;  ///< Number of pairs of custom metadata.
  std::size_t n_fields = 0;    ///< Schema: number of top-level fields.
  // Record batches and dictionaries; absent parts count as 0.
  std::int64_t num_rows = 0;
  std::size_t n_nodes = 0;
  std::size_t n_buffers = 0;
  Codec codec = Codec::kNone;
  std::int64_t dictionary_id = -1;
  bool is_delta = false;
};

/// Reads the summary of a message. Throws as Message::parse does for an invalid message. The numbers are the message's
/// own and are not checked.
MessageSummary summarize(ByteSpan metadata, const Limits& limits, const char* where);

/// One field of a schema's tree, in preorder. The children of a dictionary's values appear as children of their field.
struct FieldDescription {
  std::string path;  ///< Printable: "trips.stops.item". A field without a name shows as its position: "trips.[0]".
  int depth = 0;     ///< 0: top level.
  std::string type;  ///< array::type_name(); for a dictionary-encoded field, of its values.
  bool nullable = true;
  std::int64_t dictionary_id = -1;  ///< -1: not dictionary-encoded.
  std::string index_type;           ///< Dictionary-encoded only.
  bool ordered = false;
  std::string extension;     ///< ARROW:extension:name, or empty.
  array::Metadata metadata;  ///< Includes the two keys of extension types.
};

std::vector<FieldDescription> describe_fields(const array::Schema& schema);

struct BufferDescription {
  std::string_view kind;           ///< As buffer_kind_name().
  std::int64_t variadic;           ///< Index among its view's variadic buffers; -1 for other buffers.
  BufferRange range;               ///< As in the message; a compressed buffer includes the length before it.
  std::int64_t decompressed = -1;  ///< Size after decompression, for compressed bodies; -1: unknown.
};

struct NodeDescription {
  std::string path;  ///< As in FieldDescription.
  std::string type;
  std::int64_t length = 0;
  std::int64_t null_count = 0;   ///< -1: unknown.
  std::size_t first_buffer = 0;  ///< Index in BatchDescription::buffers.
  std::size_t n_buffers = 0;
};

/// A record batch or dictionary, and the places of its buffers in its body.
struct BatchDescription {
  MessageSummary message;
  /// Sum over the top-level columns; -1 if it is unknown for one of them.
  std::int64_t null_count = 0;
  array::Metadata custom_metadata;
  std::vector<NodeDescription> nodes;      ///< In the schema's preorder.
  std::vector<BufferDescription> buffers;  ///< Without the validity that only V4 has; see Message::batch.
};

/// Describes a record batch of `schema`, or a dictionary of it. Makes the checks of Message::batch, and throws as it
/// does. Throws InvalidDataError also for a dictionary of no field, and InvalidArgumentError for a message of another
/// kind.
BatchDescription describe_batch(ByteSpan metadata, const array::Schema& schema, const Limits& limits,
                                const char* where);

/// Returns the decompressed size of a compressed buffer of `size` bytes, from its first 8 bytes. Returns nullopt if it
/// is shorter, or if the size is impossible.
std::optional<std::int64_t> decompressed_size(ByteSpan head, std::int64_t size) noexcept;

}  // namespace crossdock::ipc
