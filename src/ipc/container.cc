#include "crossdock/ipc/container.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "container_sniff.h"
#include "flatbuf.h"
#include "schema_reader.h"

namespace crossdock::ipc {
namespace {

constexpr std::string_view kMagic = "ARROW1";
constexpr std::int64_t kMagicSize = 6;
constexpr std::int64_t kFileHeadSize = 8;  // The magic, padded.
constexpr std::int32_t kContinuation = -1;
constexpr std::int64_t kLengthSize = 4;

/// One encapsulated message's metadata: [marker] length flatbuffer.
struct Frame {
  std::int64_t metadata_offset = 0;
  std::int64_t metadata_length = 0;  ///< 0: the end-of-stream marker.
  std::int64_t end() const noexcept { return metadata_offset + metadata_length; }
};

class Reader {
 public:
  Reader(ByteSpan file, const std::string& name, const Limits& limits)
      : file_(file), size_(static_cast<std::int64_t>(file.size())), name_(name), limits_(limits) {}

  Container read() {
    if (file_.empty()) throw InvalidDataError(name_ + " is empty (0 bytes): an Arrow IPC file was expected");
    const bool has_magic = as_text(file_).starts_with(kMagic);
    if (!has_magic) refuse_other_formats(file_, name_);
    if (has_magic) {
      read_file();
    } else {
      read_stream();
    }
    return std::move(out_);
  }

 private:
  // --- the file form: a footer at the end tells where everything is ---

  void read_file() {
    // head, at least nothing, footer's length, magic
    if (size_ < kFileHeadSize + kLengthSize + kMagicSize) {
      fail_truncated(0, "the head and the tail of an Arrow file, " +
                            std::to_string(kFileHeadSize + kLengthSize + kMagicSize) + " bytes at least");
    }
    if (as_text(file_.last(kMagicSize)) != kMagic) {
      fail_truncated(size_ - kMagicSize, "the closing ARROW1 (was its writer closed?)");
    }
    const std::int64_t tail = size_ - kMagicSize - kLengthSize;
    const std::int64_t length = load_le<std::int32_t>(file_.data() + tail);
    if (length <= 0 || length > tail - kFileHeadSize) {
      fail(tail, "the footer's length is " + std::to_string(length) +
                     ", but it must lie between the file's head and byte " + std::to_string(tail));
    }
    footer_offset_ = tail - length;
    set_where("the footer", footer_offset_);
    footer_bytes_ = aligned(file_.subspan(static_cast<std::size_t>(footer_offset_), static_cast<std::size_t>(length)));
    const auto* footer = verified_root<flatbuf::Footer>(footer_bytes_, limits_, where_.c_str());
    check_version(footer->version(), where_.c_str());
    if (!footer->schema()) fail(footer_offset_, "the footer has no schema");
    take_schema(read_schema(*footer->schema(), limits_, where_.c_str()));

    read_blocks(footer->dictionaries(), MessageKind::kDictionaryBatch);
    read_blocks(footer->record_batches(), MessageKind::kRecordBatch);
  }

  void read_blocks(const flatbuffers::Vector<const flatbuf::Block*>* blocks, MessageKind kind) {
    if (!blocks) return;
    out_.messages.reserve(out_.messages.size() + blocks->size());
    const std::uint8_t* at = blocks->Data();
    for (std::size_t i = 0; i < blocks->size(); ++i, at += sizeof(flatbuf::Block)) {
      // By bytes: the verifier promises that the structs are there, not that they are aligned.
      alignas(flatbuf::Block) std::uint8_t raw[sizeof(flatbuf::Block)];
      std::memcpy(raw, at, sizeof raw);
      read_block(*reinterpret_cast<const flatbuf::Block*>(raw), kind);
    }
  }

  void read_block(const flatbuf::Block& block, MessageKind kind) {
    const std::int64_t offset = block.offset();
    const std::int64_t metadata_length = block.metadata_length();
    if (offset < 0 || metadata_length <= 0 || block.body_length() < 0 || offset > footer_offset_ ||
        metadata_length > footer_offset_ - offset) {
      fail(footer_offset_, "the footer names a message at " + std::to_string(offset) + " with " +
                               std::to_string(metadata_length) + " bytes of metadata and a body of " +
                               std::to_string(block.body_length()) + ", which doesn't lie before the footer");
    }
    // Blocks of a hostile footer may all name one big message; honest ones don't overlap.
    metadata_read_ += metadata_length;
    if (metadata_read_ > size_) fail(footer_offset_, "the footer names overlapping messages");
    const Frame frame = read_frame(offset, offset + metadata_length);
    if (frame.metadata_length == 0) fail(offset, "an end-of-stream marker where the footer names a message");
    add(frame, offset + metadata_length, footer_offset_, kind);
  }

  // --- the stream form: messages one after the other ---

  void read_stream() {
    std::int64_t offset = 0;
    while (offset < size_) {
      const std::int64_t start = offset;
      const Frame frame = read_frame(start, size_);
      if (frame.metadata_length == 0) {
        offset = frame.metadata_offset;
        refuse_second_stream(offset);
        break;
      }
      offset = out_.schema ? add(frame, frame.end(), size_, std::nullopt) : read_first(frame, start);
    }
    if (!out_.schema) fail(0, "the stream ends before its schema");
  }

  std::int64_t read_first(const Frame& frame, std::int64_t start) {
    set_where("the schema message", start);
    const Message message = parse(frame);
    if (message.kind() != MessageKind::kSchema) {
      fail(start, "the stream doesn't begin with a schema message");
    }
    take_schema(message.schema());
    return frame.end();
  }

  /// Streams that were written one after the other into one file would be cut to the first, silently. Zeros may follow:
  /// of files made in their full size beforehand.
  void refuse_second_stream(std::int64_t offset) const {
    const auto rest = file_.subspan(static_cast<std::size_t>(offset))
                          .first(static_cast<std::size_t>(std::min<std::int64_t>(size_ - offset, 8)));
    for (const std::byte byte : rest) {
      if (byte != std::byte{0}) {
        fail(offset,
             std::to_string(size_ - offset) + " bytes follow the end-of-stream marker; a file holds one stream");
      }
    }
  }

  // --- both ---

  /// Reads the prefix at `offset`; everything must lie before `end`.
  Frame read_frame(std::int64_t offset, std::int64_t end) const {
    if (end - offset < kLengthSize) fail_truncated(offset, "the 4 bytes of a message's length");
    std::int32_t length = load_le<std::int32_t>(file_.data() + offset);
    std::int64_t at = offset + kLengthSize;
    if (length == kContinuation) {
      if (end - at < kLengthSize) fail_truncated(at, "the 4 bytes of a message's length");
      length = load_le<std::int32_t>(file_.data() + at);
      at += kLengthSize;
    }
    if (length < 0) fail(offset, "a message's metadata has length " + std::to_string(length) + not_arrow());
    if (length > limits_.max_metadata_bytes) {
      fail(offset, "a message's metadata has " + std::to_string(length) + " bytes, over the limit of " +
                       std::to_string(limits_.max_metadata_bytes) + not_arrow());
    }
    if (length > end - at) fail_truncated(at, std::to_string(length) + " bytes of a message's metadata" + not_arrow());
    return {at, length};
  }

  Message parse(const Frame& frame) const {
    return Message::parse(
        file_.subspan(static_cast<std::size_t>(frame.metadata_offset), static_cast<std::size_t>(frame.metadata_length)),
        limits_, where_.c_str());
  }

  /// Checks one dictionary or record batch and lists it. Returns where its body ends.
  std::int64_t add(const Frame& frame, std::int64_t body_offset, std::int64_t end,
                   std::optional<MessageKind> expected) {
    set_where("the message", frame.metadata_offset);
    const Message message = parse(frame);
    if (message.kind() == MessageKind::kSchema || (expected && message.kind() != *expected)) {
      fail(frame.metadata_offset, "a message of another kind than belongs here (kind " +
                                      std::to_string(static_cast<int>(message.kind())) + ")");
    }
    if (message.body_length() > end - body_offset) {
      fail_truncated(body_offset, std::to_string(message.body_length()) + " bytes of a message's body");
    }
    if (message.kind() == MessageKind::kDictionaryBatch) {
      add_dictionary(message, expected.has_value());
    } else {
      message.batch(*out_.schema, &header_);
      if (!checked_add(out_.num_rows, header_.num_rows, &out_.num_rows)) {
        fail(frame.metadata_offset, "the number of rows overflows");
      }
    }
    out_.messages.push_back(
        {message.kind(), frame.metadata_offset, frame.metadata_length, body_offset, message.body_length()});
    return body_offset + message.body_length();
  }

  void add_dictionary(const Message& message, bool in_file_form) {
    const std::int64_t id = message.dictionary_id();
    const auto slot = dictionaries_.find(id);
    if (slot == dictionaries_.end()) {
      throw InvalidDataError(where_ + ": dictionary " + std::to_string(id) + " belongs to no field of the schema");
    }
    message.batch(*slot->second, &header_);
    // The file form has no order between dictionaries and batches: which of two would hold isn't defined.
    if (in_file_form && !header_.is_delta && !defined_.insert(id).second) {
      throw InvalidDataError(where_ + ": dictionary " + std::to_string(id) +
                             " is replaced, which the file form doesn't allow; write a stream file");
    }
  }

  void take_schema(std::shared_ptr<const array::Schema> schema) {
    out_.schema = std::move(schema);
    collect_dictionaries(*out_.schema);
  }

  void collect_dictionaries(const array::Schema& schema) {
    for (const array::DictionarySlot& slot : schema.dictionaries()) {
      if (dictionaries_.emplace(slot.id, slot.values.get()).second) collect_dictionaries(*slot.values);
    }
  }

  ByteSpan aligned(ByteSpan bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(std::uint64_t) == 0 ||
        static_cast<std::int64_t>(bytes.size()) > limits_.max_metadata_bytes) {
      return bytes;
    }
    footer_copy_ = std::make_unique_for_overwrite<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(footer_copy_.get(), bytes.data(), bytes.size());
    return {reinterpret_cast<const std::byte*>(footer_copy_.get()), bytes.size()};
  }

  void set_where(const char* what, std::int64_t offset) {
    where_ = what;
    where_ += " at byte " + std::to_string(offset) + " of " + name_;
  }

  /// A length that can't be right at the very start: more likely no Arrow file than a broken one.
  std::string not_arrow() const {
    return out_.schema || footer_offset_ > 0 ? "" : "; this doesn't look like an Arrow IPC file or stream at all";
  }

  [[noreturn]] void fail(std::int64_t offset, const std::string& what) const {
    throw InvalidDataError(name_ + ", byte " + std::to_string(offset) + ": " + what);
  }
  [[noreturn]] void fail_truncated(std::int64_t offset, const std::string& expected) const {
    throw InvalidDataError(name_ + " is truncated: at byte " + std::to_string(offset) + " of " + std::to_string(size_) +
                           ", expected " + expected);
  }

  ByteSpan file_;
  std::int64_t size_;
  const std::string& name_;
  const Limits& limits_;
  std::string where_;
  Container out_;
  BatchHeader header_;
  std::unordered_map<std::int64_t, const array::Schema*> dictionaries_;
  std::unordered_set<std::int64_t> defined_;
  std::int64_t metadata_read_ = 0;
  std::int64_t footer_offset_ = 0;
  ByteSpan footer_bytes_;
  std::unique_ptr<std::uint64_t[]> footer_copy_;
};

}  // namespace

Container read_container(ByteSpan file, const std::string& name, const Limits& limits) {
  return Reader(file, name, limits).read();
}

}  // namespace crossdock::ipc
