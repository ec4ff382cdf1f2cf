#include "ipc/container.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ipc/internal/container_sniff.h"
#include "ipc/internal/flatbuf.h"
#include "ipc/internal/framing.h"
#include "ipc/internal/schema_reader.h"

namespace crossdock::ipc {
namespace {

constexpr std::int64_t kMagicSize = 6;
constexpr std::int64_t kFileHeadSize = 8;  // the magic with padding
constexpr std::int64_t kLengthSize = 4;
constexpr std::int64_t kSniffed = 16;  // bytes by which other formats are recognised
// Bytes that are read together with a message's length: most metadata fits, and then needs no second system call.
constexpr std::int64_t kReadAhead = 2048;

/// One encapsulated message's metadata: [marker] length flatbuffer.
struct Frame {
  std::int64_t metadata_offset = 0;
  std::int64_t metadata_length = 0;  ///< 0: the end-of-stream marker.
  std::int64_t end() const noexcept { return metadata_offset + metadata_length; }
};

class Reader {
 public:
  Reader(const ContainerSource& source, const std::string& name, const Limits& limits)
      : source_(source), size_(source.size()), name_(name), limits_(limits) {}

  Container read() {
    if (size_ == 0) throw InvalidDataError(name_ + " is empty (0 bytes): an Arrow IPC file was expected");
    const ByteSpan head = bytes(0, std::min(size_, kSniffed));
    out_.has_footer = as_text(head).starts_with(kMagic);
    if (out_.has_footer) {
      read_file();
    } else {
      refuse_other_formats(head, name_);
      read_stream();
    }
    return std::move(out_);
  }

 private:
  // --- the file form: a footer at the end has the places of all messages ---

  void read_file() {
    // the head, possibly no message, the footer's length, the magic
    if (size_ < kFileHeadSize + kLengthSize + kMagicSize) {
      fail_truncated(0, "the head and the tail of an Arrow file, " +
                            std::to_string(kFileHeadSize + kLengthSize + kMagicSize) + " bytes at least");
    }
    const std::int64_t tail = size_ - kMagicSize - kLengthSize;
    const ByteSpan end = bytes(tail, kLengthSize + kMagicSize);
    if (as_text(end.last(kMagicSize)) != kMagic) {
      fail_truncated(size_ - kMagicSize, "the closing ARROW1 (was its writer closed?)");
    }
    const std::int64_t length = load_le<std::int32_t>(end.data());
    if (length <= 0 || length > tail - kFileHeadSize) {
      fail(tail, "the footer's length is " + std::to_string(length) +
                     ", but it must be between the file's head and byte " + std::to_string(tail));
    }
    footer_offset_ = tail - length;
    set_where("the footer", footer_offset_);
    if (length > limits_.max_metadata_bytes) {
      fail(footer_offset_, "the footer has " + std::to_string(length) + " bytes, over the limit of " +
                               std::to_string(limits_.max_metadata_bytes));
    }
    // Keeps its own copy, because messages are read while the footer is processed.
    footer_.resize(static_cast<std::size_t>(length) / sizeof(std::uint64_t) + 1);
    const MutableByteSpan footer_bytes =
        std::as_writable_bytes(std::span(footer_)).first(static_cast<std::size_t>(length));
    source_.read(footer_offset_, footer_bytes);
    const auto* footer = verified_root<flatbuf::Footer>(footer_bytes, limits_, where_.c_str());
    // The field is V1 if the writer omitted it. The messages' versions then decide, and are checked with the messages.
    if (footer->version() != flatbuf::MetadataVersion::V1) {
      check_version(footer->version(), where_.c_str());
      out_.version = static_cast<int>(footer->version()) + 1;
    }
    if (!footer->schema()) fail(footer_offset_, "the footer has no schema");
    take_schema(read_schema_info(*footer->schema(), limits_, where_.c_str()));
    out_.custom_metadata = read_metadata(footer->custom_metadata(), limits_, where_.c_str());

    read_blocks(footer->dictionaries(), MessageKind::kDictionaryBatch);
    order_dictionaries();
    read_blocks(footer->record_batches(), MessageKind::kRecordBatch);
  }

  void read_blocks(const flatbuffers::Vector<const flatbuf::Block*>* blocks, MessageKind kind) {
    if (!blocks) return;
    out_.messages.reserve(out_.messages.size() + blocks->size());
    const std::uint8_t* at = blocks->Data();
    for (std::size_t i = 0; i < blocks->size(); ++i, at += sizeof(flatbuf::Block)) {
      // Copies bytes, because the verifier guarantees that the structs exist, but not that they are aligned.
      alignas(flatbuf::Block) std::uint8_t raw[sizeof(flatbuf::Block)];
      std::memcpy(raw, at, sizeof raw);
      read_block(*reinterpret_cast<const flatbuf::Block*>(raw), kind);
    }
  }

  /// Sorts the dictionaries so that those within a dictionary's values come before it. The file form doesn't order
  /// them.
  void order_dictionaries() {
    std::vector<std::size_t> order(out_.messages.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return dictionaries_.at(listed_[i]).rank; });
    std::vector<ContainerMessage> ordered;
    ordered.reserve(out_.messages.size());
    for (const std::size_t i : order) ordered.push_back(out_.messages[i]);
    out_.messages = std::move(ordered);
  }

  void read_block(const flatbuf::Block& block, MessageKind kind) {
    const std::int64_t offset = block.offset();
    const std::int64_t metadata_length = block.metadata_length();
    if (offset < 0 || metadata_length <= 0 || block.body_length() < 0 || offset > footer_offset_ ||
        metadata_length > footer_offset_ - offset) {
      fail(footer_offset_, "the footer names a message at " + std::to_string(offset) + " with " +
                               std::to_string(metadata_length) + " bytes of metadata and a body of " +
                               std::to_string(block.body_length()) + ", which doesn't end before the footer");
    }
    // A hostile footer may name one big message many times; blocks of a valid one don't overlap.
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
    take_schema(message.schema_info());
    out_.version = message.version();
    out_.custom_metadata = message.custom_metadata();
    return frame.end();
  }

  /// Refuses a second stream in the same file: only the first one would be read, silently. Zeros may follow, as in
  /// files that were created in their full size.
  void refuse_second_stream(std::int64_t offset) {
    for (const std::byte byte : bytes(offset, std::min<std::int64_t>(size_ - offset, 8))) {
      if (byte != std::byte{0}) {
        fail(offset,
             std::to_string(size_ - offset) + " bytes follow the end-of-stream marker; a file holds one stream");
      }
    }
  }

  // --- both forms ---

  /// Reads the prefix at `offset`. The whole frame must lie before `end`.
  Frame read_frame(std::int64_t offset, std::int64_t end) {
    if (end - offset < kLengthSize) fail_truncated(offset, "the 4 bytes of a message's length");
    const ByteSpan head = bytes(offset, std::min(end - offset, kReadAhead));
    auto length = load_le<std::int32_t>(head.data());
    std::int64_t at = offset + kLengthSize;
    if (length == kContinuation) {
      if (end - at < kLengthSize) fail_truncated(at, "the 4 bytes of a message's length");
      length = load_le<std::int32_t>(head.data() + kLengthSize);
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

  Message parse(const Frame& frame) {
    return Message::parse(bytes(frame.metadata_offset, frame.metadata_length), limits_, where_.c_str());
  }

  /// Returns bytes of the file, 8-aligned, valid until the next call. Uses the bytes of the last read if they are among
  /// them.
  ByteSpan bytes(std::int64_t offset, std::int64_t length) {
    if (offset < window_offset_ || offset + length > window_offset_ + window_size_ ||
        (offset - window_offset_) % static_cast<std::int64_t>(sizeof(std::uint64_t)) != 0) {
      window_.resize(std::max(window_.size(), static_cast<std::size_t>(length) / sizeof(std::uint64_t) + 1));
      window_offset_ = offset;
      window_size_ = length;
      source_.read(offset, window().first(static_cast<std::size_t>(length)));
    }
    return window().subspan(static_cast<std::size_t>(offset - window_offset_), static_cast<std::size_t>(length));
  }
  MutableByteSpan window() { return std::as_writable_bytes(std::span(window_)); }

  /// Checks one dictionary or record batch and lists it. Returns the end of its body.
  std::int64_t add(const Frame& frame, std::int64_t body_offset, std::int64_t end,
                   std::optional<MessageKind> expected) {
    set_where("the message", frame.metadata_offset);
    const Message message = parse(frame);
    const bool belongs = message.kind() == MessageKind::kRecordBatch || message.kind() == MessageKind::kDictionaryBatch;
    if (!belongs || (expected && message.kind() != *expected)) {
      fail(frame.metadata_offset,
           "a message of kind " + std::to_string(static_cast<int>(message.kind())) + ", which isn't allowed here");
    }
    if (out_.messages.empty() && out_.has_footer) out_.version = message.version();
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
    out_.compressed |= header_.codec != Codec::kNone;
    out_.messages.push_back(
        {message.kind(), frame.metadata_offset, frame.metadata_length, body_offset, message.body_length()});
    return body_offset + message.body_length();
  }

  void add_dictionary(const Message& message, bool in_file_form) {
    const std::int64_t id = message.dictionary_id();
    const auto slot = dictionaries_.find(id);
    if (slot == dictionaries_.end()) {
      throw InvalidDataError(where_ + ": dictionary " + std::to_string(id) + " isn't used by any field of the schema");
    }
    message.batch(*slot->second.values, &header_);
    if (in_file_form) listed_.push_back(id);
    // The file form has no order between dictionaries and batches, so it would be undefined which of two dictionaries
    // is valid.
    if (in_file_form && !header_.is_delta && !defined_.insert(id).second) {
      throw InvalidDataError(where_ + ": dictionary " + std::to_string(id) +
                             " is replaced, which the file form doesn't allow; write a stream file");
    }
  }

  void take_schema(SchemaInfo info) {
    out_.schema = std::move(info.schema);
    out_.endianness = info.endianness;
    collect_dictionaries(*out_.schema);
  }

  void collect_dictionaries(const array::Schema& schema) {
    for (const array::DictionarySlot& slot : schema.dictionaries()) {
      if (!dictionaries_.emplace(slot.id, Dictionary{slot.values.get()}).second) continue;
      collect_dictionaries(*slot.values);
      dictionaries_.at(slot.id).rank = n_ranked_++;
    }
  }

  void set_where(const char* what, std::int64_t offset) {
    where_ = what;
    where_ += " at byte " + std::to_string(offset) + " of " + name_;
  }

  /// Returns a hint for a length that can't be valid at the start of the file: it is more likely not an Arrow file than
  /// a broken one.
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

  const ContainerSource& source_;
  std::int64_t size_;
  const std::string& name_;
  const Limits& limits_;
  std::string where_;
  Container out_;
  BatchHeader header_;
  struct Dictionary {
    const array::Schema* values = nullptr;
    std::size_t rank = 0;  ///< Higher than those of the dictionaries within its values.
  };
  std::unordered_map<std::int64_t, Dictionary> dictionaries_;
  std::size_t n_ranked_ = 0;
  std::vector<std::int64_t> listed_;  // ids of the footer's dictionaries, in the footer's order
  std::unordered_set<std::int64_t> defined_;
  std::int64_t metadata_read_ = 0;
  std::int64_t footer_offset_ = 0;
  std::vector<std::uint64_t> footer_;  // words, so that flatbuffers are aligned
  std::vector<std::uint64_t> window_;
  std::int64_t window_offset_ = 0;
  std::int64_t window_size_ = 0;
};

}  // namespace

void MemorySource::read(std::int64_t offset, MutableByteSpan to) const {
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
}

Container read_container(const ContainerSource& source, const std::string& name, const Limits& limits) {
  return Reader(source, name, limits).read();
}

Container read_container(ByteSpan file, const std::string& name, const Limits& limits) {
  return read_container(MemorySource(file), name, limits);
}

Message read_message(const ContainerSource& source, const ContainerMessage& place, const char* where,
                     const Limits& limits, std::vector<std::uint64_t>* memory) {
  const auto size = static_cast<std::size_t>(place.metadata_length);
  memory->resize(std::max(memory->size(), size / sizeof(std::uint64_t) + 1));
  const MutableByteSpan bytes = std::as_writable_bytes(std::span(*memory)).first(size);
  source.read(place.metadata_offset, bytes);
  Message message = Message::parse(bytes, limits, where);
  if (message.kind() != place.kind || message.body_length() != place.body_length) {
    throw FileChangedError(std::string(where) + ": the file changed while it was read");
  }
  return message;
}

}  // namespace crossdock::ipc
