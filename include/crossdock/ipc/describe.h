#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/metadata.h"

/// What metadata says, for people and programs that look at it: nothing here is needed to read data.
namespace crossdock::ipc {

/// "schema", "dictionary", "record batch", "tensor", "sparse tensor".
CROSSDOCK_EXPORT std::string_view kind_name(MessageKind kind) noexcept;
/// "none", "lz4", "zstd".
CROSSDOCK_EXPORT std::string_view compression_name(Codec codec) noexcept;
/// "validity", "int32 offsets", "views", ...; of a variadic buffer of a view it is "variadic".
CROSSDOCK_EXPORT std::string_view buffer_kind_name(array::BufferKind kind) noexcept;

/// A message by itself, without the schema that its buffers belong to.
struct MessageSummary {
  MessageKind kind = MessageKind::kSchema;
  int version = 5;  ///< 4 or 5.
  std::int64_t body_length = 0;
  std::size_t n_metadata = 0;  ///< Pairs of custom metadata.
  std::size_t n_fields = 0;    ///< Schema: of the top level.
  // Record batches and dictionaries; what is absent counts as 0.
  std::int64_t num_rows = 0;
  std::size_t n_nodes = 0;
  std::size_t n_buffers = 0;
  Codec codec = Codec::kNone;
  std::int64_t dictionary_id = -1;
  bool is_delta = false;
};

/// Throws what Message::parse does of a message that isn't one. The numbers are the message's own: they are not
/// checked against anything.
CROSSDOCK_EXPORT MessageSummary summarize(ByteSpan metadata, const Limits& limits, const char* where);

/// One field of a schema's tree, in preorder; the children of a dictionary's values are their field's.
struct FieldDescription {
  std::string path;  ///< Printable: "trips.stops.item". A field without a name shows as its position: "trips.[0]".
  int depth = 0;     ///< 0: top level.
  std::string type;  ///< array::type_name(); of a dictionary-encoded field, of its values.
  bool nullable = true;
  std::int64_t dictionary_id = -1;  ///< -1: not dictionary-encoded.
  std::string index_type;           ///< Dictionary-encoded only.
  bool ordered = false;
  std::string extension;     ///< ARROW:extension:name, or empty.
  array::Metadata metadata;  ///< With the two keys of extension types.
};

CROSSDOCK_EXPORT std::vector<FieldDescription> describe_fields(const array::Schema& schema);

struct BufferDescription {
  std::string_view kind;           ///< As buffer_kind_name().
  std::int64_t variadic;           ///< Which of its view's variadic buffers; -1: none of them.
  BufferRange range;               ///< As the message says: of a compressed buffer, with the length before it.
  std::int64_t decompressed = -1;  ///< Of a compressed body, the bytes that this stands for; -1: not known.
};

struct NodeDescription {
  std::string path;  ///< As in FieldDescription.
  std::string type;
  std::int64_t length = 0;
  std::int64_t null_count = 0;   ///< -1: unknown.
  std::size_t first_buffer = 0;  ///< Among BatchDescription::buffers.
  std::size_t n_buffers = 0;
};

/// A record batch or dictionary, and where its buffers lie in its body.
struct BatchDescription {
  MessageSummary message;
  /// Of the top-level columns together; -1: not known of one of them.
  std::int64_t null_count = 0;
  array::Metadata custom_metadata;
  std::vector<NodeDescription> nodes;      ///< In the schema's preorder.
  std::vector<BufferDescription> buffers;  ///< Without the validity that only V4 has, see Message::batch.
};

/// Describes a record batch of `schema`, or a dictionary that it names. Checks what Message::batch checks, and throws
/// as that does; InvalidDataError also for a dictionary of no field, InvalidArgumentError for a message of another
/// kind.
CROSSDOCK_EXPORT BatchDescription describe_batch(ByteSpan metadata, const array::Schema& schema, const Limits& limits,
                                                 const char* where);

/// The bytes that a compressed buffer stands for, by the first 8 of its `size` bytes; nothing if it is shorter, or says
/// what can't be.
CROSSDOCK_EXPORT std::optional<std::int64_t> decompressed_size(ByteSpan head, std::int64_t size) noexcept;

}  // namespace crossdock::ipc
