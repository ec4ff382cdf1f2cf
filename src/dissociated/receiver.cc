#include "dissociated/receiver.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "dissociated/internal/buffer_pool.h"

namespace crossdock::dissociated {
namespace {

/// The data received for one sequence number.
struct Slot {
  Buffer metadata;
  Buffer body_copy;
  ByteSpan body;  // in body_copy, or in the owner's memory
  std::shared_ptr<const void> owner;
  std::uint64_t counted = 0;  // bytes of the body that count in `buffered`
  bool has_metadata = false;
  bool has_body = false;
  BodyType body_type = BodyType::kPacked;
};

constexpr std::size_t kFirstSlots = 16;

/// The name of a message in the codec's errors. It is written for each message, without an allocation.
class Where {
 public:
  const char* of(std::uint32_t sequence) noexcept {
    const auto [end, error] = std::to_chars(text_ + kName.size(), std::end(text_) - 1, sequence);
    *end = '\0';
    return text_;
  }

 private:
  static constexpr std::string_view kName = "message ";
  char text_[kName.size() + std::numeric_limits<std::uint32_t>::digits10 + 2] = "message ";
};

}  // namespace

struct Receiver::Impl {
  explicit Impl(const Options& receiver_options) : options(receiver_options), slots(kFirstSlots) {
    if (options.max_ahead == 0 || options.max_ahead > (1u << 31)) {
      throw InvalidArgumentError(
          "Receiver: max_ahead is " + std::to_string(options.max_ahead) +
          "; it must be 1 to 2147483648, so that numbers before and after the next one due differ");
    }
  }

  enum class Ending : std::uint8_t { kNone, kEnd, kError };

  const Options options;
  /// A ring: number n is at n modulo its size, a power of two, also across the roll-over.
  std::vector<Slot> slots;
  /// Positions count a stream's messages in 64 bits; their low 32 bits are the sequence numbers.
  std::uint64_t position = 0;  // of the next message due
  std::uint64_t furthest = 0;  // one past the last message of which any part has arrived
  bool begun = false;          // the schema was taken
  Ending ending = Ending::kNone;
  std::uint64_t end_position = 0;  // if there is an ending
  Buffer reason;                   // of an error message
  bool disconnected = false;
  std::string disconnect_reason;
  bool finished = false;
  std::uint64_t buffered = 0;

  BufferPool metadata_pool;
  BufferPool body_pool;
  std::optional<ipc::Message> message;  // the last one parsed
  Buffer parsed;                        // its metadata
  bool is_parsed = false;               // `message` is the one due next, else the one returned last
  bool repeats = false;                 // the one due next has the same metadata as the one before
  Where where;
  bool taken = false;  // `item` was returned and refers to `parsed` and `taken_body`
  Buffer taken_body;
  Item item;

  std::uint32_t due() const noexcept { return static_cast<std::uint32_t>(position); }
  Slot& slot_of(std::uint32_t sequence) noexcept { return slots[sequence & (slots.size() - 1)]; }

  void release_taken() {
    if (!taken) return;
    taken = false;
    item.body_owner.reset();
    body_pool.put(std::move(taken_body));
  }

  /// Returns the position of a number that may still arrive. `what` is the message's kind, for errors.
  std::uint64_t position_of(std::uint32_t sequence, const char* what) const {
    const std::uint32_t ahead = sequence - due();  // modulo 2^32: a number before the next one due is very far ahead
    if (finished || ahead >= options.max_ahead) [[unlikely]]
      fail_number(sequence, what);
    return position + ahead;
  }

  [[noreturn]] void fail_number(std::uint32_t sequence, const char* what) const {
    const std::string arrived = std::string(what) + " of number " + std::to_string(sequence) + " arrived ";
    if (finished) throw ProtocolError(arrived + "after the stream's end");
    throw ProtocolError(arrived + "where number " + std::to_string(due()) +
                        " is due next: it was already taken, or is more than " + std::to_string(options.max_ahead) +
                        " ahead");
  }

  /// Returns the slot of a metadata message or a body that may arrive. Returns null if an error has ended the stream
  /// before this message, so that it isn't needed: with two connections, the one without the error doesn't stop at
  /// once. Grows the ring as needed.
  Slot* arrival(std::uint32_t sequence, std::size_t size, const char* what) {
    const std::uint64_t at = position_of(sequence, what);
    if (ending != Ending::kNone && at >= end_position) [[unlikely]] {
      if (ending == Ending::kError) return nullptr;
      fail_after_end(sequence, what);
    }
    if (size > options.max_buffered_bytes - buffered) [[unlikely]]
      fail_buffered(sequence, size, what);
    if (at - position >= slots.size()) [[unlikely]]
      grow(at - position + 1);
    furthest = std::max(furthest, at + 1);
    return &slot_of(sequence);
  }

  [[noreturn]] void fail_after_end(std::uint32_t sequence, const char* what) const {
    throw ProtocolError(std::string(what) + " of number " + std::to_string(sequence) +
                        " arrived for a stream that ended with number " +
                        std::to_string(static_cast<std::uint32_t>(end_position)));
  }

  [[noreturn]] void fail_buffered(std::uint32_t sequence, std::size_t size, const char* what) const {
    throw ProtocolError(std::string(what) + " of number " + std::to_string(sequence) + " has " + std::to_string(size) +
                        " bytes, and " + std::to_string(buffered) + " bytes already wait for number " +
                        std::to_string(due()) + ": more than the limit of " +
                        std::to_string(options.max_buffered_bytes) + " (Receiver::Options::max_buffered_bytes)");
  }

  [[noreturn]] static void fail_twice(std::uint32_t sequence, const char* what) {
    throw ProtocolError(std::string(what) + " of number " + std::to_string(sequence) + " arrived twice");
  }

  void grow(std::uint64_t needed) {
    std::vector<Slot> bigger(std::bit_ceil(needed));
    for (std::uint64_t at = position; at != position + slots.size(); ++at) {
      const auto sequence = static_cast<std::uint32_t>(at);
      bigger[sequence & (bigger.size() - 1)] = std::move(slot_of(sequence));
    }
    slots.swap(bigger);
  }

  void on_metadata(std::uint32_t sequence, ByteSpan metadata) {
    if (metadata.size() > static_cast<std::uint64_t>(std::max<std::int64_t>(options.limits.max_metadata_bytes, 0)))
        [[unlikely]] {
      fail_metadata_size(sequence, metadata.size());
    }
    Slot* const slot = arrival(sequence, metadata.size(), "metadata");
    if (slot == nullptr) return;
    if (slot->has_metadata) [[unlikely]]
      fail_twice(sequence, "metadata");
    if (sequence == due() && is_repeated(metadata)) {
      is_parsed = repeats = true;
    } else {
      slot->metadata = metadata_pool.copy_of(metadata);
    }
    slot->has_metadata = true;
    buffered += metadata.size();
  }

  [[noreturn]] void fail_metadata_size(std::uint32_t sequence, std::size_t size) const {
    throw InvalidDataError("the metadata of message " + std::to_string(sequence) + " has " + std::to_string(size) +
                           " bytes; at most " + std::to_string(options.limits.max_metadata_bytes) +
                           " are allowed (ipc::Limits::max_metadata_bytes)");
  }

  /// Whether these bytes are those of the message returned last, which need not be verified again. Not for a schema: a
  /// stream has one.
  bool is_repeated(ByteSpan metadata) const noexcept {
    return message && message->has_body() && metadata.size() == parsed.bytes().size() &&
           std::memcmp(metadata.data(), parsed.bytes().data(), metadata.size()) == 0;
  }

  void on_ending(Ending kind, std::uint32_t sequence, ByteSpan text) {
    const char* const what = kind == Ending::kEnd ? "End of Stream" : "an error message";
    // With two servers, the bodies' server may fail before the schema, which has no body; and its error may arrive
    // after the schema was taken.
    const bool before_the_schema = kind == Ending::kError && sequence == 0 && position == 1 && !finished;
    const std::uint64_t at = before_the_schema ? position : position_of(sequence, what);
    // With two connections, each may end the stream. The first error counts, and an end in addition to it has no
    // meaning.
    if (ending == Ending::kError && (kind == Ending::kError || at >= end_position)) return;
    const bool fails_before_the_end = kind == Ending::kError && ending == Ending::kEnd && at <= end_position;
    if (ending != Ending::kNone && !fails_before_the_end) fail_after_end(sequence, what);
    // End of Stream must have the highest number. An error needn't: with two connections, it may arrive over the one
    // that is behind.
    if (kind == Ending::kEnd && at < furthest) {
      throw ProtocolError(std::string(what) + " has number " + std::to_string(sequence) + ", but number " +
                          std::to_string(static_cast<std::uint32_t>(furthest - 1)) +
                          " arrived, too: the end must have the last number");
    }
    if (kind == Ending::kEnd && !begun && at == 0) {
      throw ProtocolError("End of Stream has number 0: a stream must begin with its schema");
    }
    reason.assign(text);
    ending = kind;
    end_position = at;
  }

  /// Returns true if the message due next is complete. Parses its metadata once.
  bool complete(Slot& slot) {
    if (!slot.has_metadata) return false;
    if (!is_parsed) parse(slot);
    if (message->has_body() != slot.has_body) {
      if (!slot.has_body) return false;
      throw ProtocolError("a body of number " + std::to_string(due()) + " arrived, but its message has none");
    }
    if (slot.body_type == BodyType::kPacked && slot.has_body) check_packed_size(slot);
    return true;
  }

  void parse(Slot& slot) {
    ipc::Message read = ipc::Message::parse(slot.metadata.bytes(), options.limits, where.of(due()));
    const bool is_schema = read.kind() == ipc::MessageKind::kSchema;
    if (is_schema == begun) {
      throw ProtocolError(
          begun ? "message " + std::to_string(due()) + " is a second schema; a stream has one schema, its first message"
                : "message " + std::to_string(due()) + " isn't a schema, but a stream must begin with its schema");
    }
    message = std::move(read);
    metadata_pool.put(std::exchange(parsed, std::move(slot.metadata)));  // the bytes stay where they are
    is_parsed = true;
  }

  void check_packed_size(const Slot& slot) const {
    if (static_cast<std::uint64_t>(message->body_length()) == slot.body.size()) return;
    throw ProtocolError("the packed body of message " + std::to_string(due()) + " has " +
                        std::to_string(slot.body.size()) + " bytes; its metadata says " +
                        std::to_string(message->body_length()));
  }

  const Item* take(Slot& slot) {
    item.kind = Item::Kind::kMessage;
    item.sequence = due();
    item.message_kind = message->kind();
    item.message = &*message;
    item.metadata = parsed.bytes();
    item.repeats = repeats;
    item.body_type = slot.body_type;
    item.body = slot.body;
    item.body_owner = std::move(slot.owner);
    buffered -= item.metadata.size() + slot.counted;
    is_parsed = repeats = false;
    taken_body = std::move(slot.body_copy);
    slot.has_metadata = slot.has_body = false;
    slot.body_type = BodyType::kPacked;
    taken = true;
    begun = true;
    ++position;
    return &item;
  }

  const Item* finish(Item::Kind kind) {
    finished = true;
    item = Item{};
    item.kind = kind;
    item.sequence = static_cast<std::uint32_t>(end_position);
    item.metadata = reason.bytes();
    return &item;
  }

  [[noreturn]] void throw_truncated() {
    const Slot& slot = slot_of(due());
    const char* const missing = !slot.has_metadata ? (slot.has_body ? "the metadata" : "all") : "the body";
    std::string what = "the connection was lost before End of Stream: ";
    if (furthest <= position && ending == Ending::kNone) {
      what += "message " + std::to_string(due()) + " never arrived";
    } else {
      what += std::string(missing) + " of message " + std::to_string(due()) + " is missing";
      if (furthest > position + 1) {
        what += "; later messages arrived, up to number " + std::to_string(static_cast<std::uint32_t>(furthest - 1));
      }
      if (ending == Ending::kEnd)
        what += "; End of Stream has number " + std::to_string(static_cast<std::uint32_t>(end_position));
    }
    if (!disconnect_reason.empty()) what += "; " + disconnect_reason;
    throw TruncatedStreamError(what);
  }
};

Receiver::Receiver() : Receiver(Options{}) {}
Receiver::Receiver(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Receiver::~Receiver() = default;
Receiver::Receiver(Receiver&&) noexcept = default;
Receiver& Receiver::operator=(Receiver&&) noexcept = default;

void Receiver::on_untagged(ByteSpan message) {
  impl_->release_taken();
  const Prefix prefix = read_prefix(message);
  const ByteSpan rest = message.subspan(kPrefixSize);
  switch (prefix.type) {
    case MessageType::kMetadata: impl_->on_metadata(prefix.sequence, rest); break;
    case MessageType::kEndOfStream: impl_->on_ending(Impl::Ending::kEnd, prefix.sequence, rest); break;
    case MessageType::kError: impl_->on_ending(Impl::Ending::kError, prefix.sequence, rest); break;
  }
}

void Receiver::on_tagged(std::uint64_t tag, ByteSpan body, std::shared_ptr<const void> owner) {
  impl_->release_taken();
  const Tag read = read_tag(tag);
  if (!impl_->begun && impl_->position == 0 && read.sequence == 0) {
    throw ProtocolError("a body of number 0 arrived, but number 0 is the schema, which has no body");
  }
  // The body that is due next doesn't wait for others, and takes no memory of the receiver's own.
  const std::uint64_t counted = owner && read.sequence == impl_->due() ? 0 : body.size();
  Slot* const slot = impl_->arrival(read.sequence, counted, "a body");
  if (slot == nullptr) return;
  if (slot->has_body) [[unlikely]]
    Impl::fail_twice(read.sequence, "a body");
  if (owner) {
    slot->body = body;
    slot->owner = std::move(owner);
  } else {
    slot->body_copy = impl_->body_pool.copy_of(body);
    slot->body = slot->body_copy.bytes();
  }
  slot->has_body = true;
  slot->body_type = read.type;
  slot->counted = counted;
  impl_->buffered += counted;
}

void Receiver::on_disconnected(std::string_view reason) {
  impl_->release_taken();
  impl_->disconnected = true;
  impl_->disconnect_reason = reason;
}

const Receiver::Item* Receiver::next() {
  Impl& in = *impl_;
  in.release_taken();
  if (in.finished) return nullptr;
  Slot& slot = in.slot_of(in.due());
  if (in.complete(slot)) return in.take(slot);
  if (in.ending == Impl::Ending::kEnd && in.position == in.end_position) return in.finish(Item::Kind::kEnd);
  if (in.ending == Impl::Ending::kError) return in.finish(Item::Kind::kError);
  if (in.disconnected) in.throw_truncated();
  return nullptr;
}

const ipc::Message* Receiver::due_message() const noexcept {
  const Impl& in = *impl_;
  return in.is_parsed && in.message ? &*in.message : nullptr;
}

bool Receiver::finished() const noexcept { return impl_->finished; }
bool Receiver::due_has_metadata() const noexcept { return impl_->slot_of(impl_->due()).has_metadata; }

void Receiver::set_next_sequence(std::uint32_t sequence) {
  impl_->release_taken();
  impl_->position = impl_->furthest = sequence;
  impl_->begun = true;
}

}  // namespace crossdock::dissociated
