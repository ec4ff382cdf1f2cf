#include "frame_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {
namespace {

constexpr std::size_t kBuffer = 64 << 10;
/// Bytes to read after a body: enough for the metadata of the next one, but little of its body, because these bytes are
/// copied.
constexpr std::size_t kReadAhead = 4 << 10;
/// A frame up to this size is read into the buffer, together with the bytes after it.
constexpr std::size_t kSmall = kMaxAnnouncement;
constexpr std::size_t kBytesPerTurn = 256 << 10;

std::string hexadecimal(std::uint32_t value) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

const char* name_of(FrameKind kind) noexcept { return kind == FrameKind::kBody ? "body" : "message"; }

[[noreturn]] void throw_damaged(const std::string& what, std::uint32_t sent, std::uint32_t found) {
  throw ProtocolError(what + " arrived damaged: its CRC-32C is " + hexadecimal(sent) + ", but its bytes have " +
                      hexadecimal(found) +
                      "; it was dropped. Check the network between the two machines, and connect again; writing to a "
                      "file while it is served has the same effect");
}

}  // namespace

FrameReader::FrameReader(ByteStream& stream, ControlFrames& control, ReadLimits limits, const std::string& where,
                         bool stream_has_more)
    : stream_(stream),
      control_(control),
      limits_(std::move(limits)),
      where_(where),
      large_messages_(make_body_pool(0)),
      buffer_(static_cast<std::byte*>(::operator new (kBuffer, std::align_val_t{64}))),
      stream_has_more_(stream_has_more) {}

std::optional<Incoming> FrameReader::receive() {
  held_.reset();
  drained_ = false;
  for (std::size_t budget = kBytesPerTurn;;) {
    if (std::optional<Incoming> message = take()) {
      has_more_ = begin_ != end_;
      return message;
    }
    if (std::exchange(paused_, false)) {
      has_more_ = begin_ != end_;
      return std::nullopt;
    }
    has_more_ = budget == 0;
    if (budget == 0 || drained_ || ended_ || !fill(&budget)) return std::nullopt;
  }
}

/// Returns the next complete message. Handles the control frames before it.
std::optional<Incoming> FrameReader::take() {
  for (;;) {
    if (large_) {
      if (large_->got < large_->total()) return std::nullopt;
      return finish_large();
    }
    const std::size_t have = end_ - begin_;
    if (have < wanted_ || have == 0) return std::nullopt;
    if (goodbye_) throw ProtocolError(where_ + " sent a frame after its goodbye");
    wanted_ = kHeaderBytes;
    if (have < wanted_) return std::nullopt;
    const FrameHeader header = this->header();
    switch (header.kind) {
      case FrameKind::kTaken: control_.taken(header.tag); break;
      case FrameKind::kWindow: control_.window(header.tag); break;
      case FrameKind::kGoodbye:
        goodbye_ = true;
        control_.goodbye();
        break;
      case FrameKind::kBodyBeside:
      case FrameKind::kRegion:
      case FrameKind::kRetired: {
        const std::optional<ByteSpan> payload = small_payload(header);
        if (!payload) return std::nullopt;
        control_.beside(header.kind, header.tag, *payload);
        begin_ += std::exchange(wanted_, 0);
        paused_ = true;
        return std::nullopt;
      }
      case FrameKind::kMessage:
      case FrameKind::kTagged:
      case FrameKind::kBody: {
        if (header.kind == FrameKind::kBody || header.length > kSmall) {
          begin_large(header);
          continue;
        }
        const std::optional<ByteSpan> payload = small_payload(header);
        if (!payload) return std::nullopt;
        begin_ += std::exchange(wanted_, 0);
        after_large_ = false;
        return Incoming{header.kind == FrameKind::kTagged, header.tag, *payload};
      }
    }
    begin_ += std::exchange(wanted_, 0);
  }
}

/// Returns the payload of the small frame at begin_ once all of it is in the buffer. Sets wanted_.
std::optional<ByteSpan> FrameReader::small_payload(const FrameHeader& header) {
  const auto length = static_cast<std::size_t>(header.length);
  const std::size_t trailer = trailer_size(length, limits_.checksums);
  wanted_ = kHeaderBytes + length + trailer;
  if (end_ - begin_ < wanted_) return std::nullopt;
  const ByteSpan payload(buffer_.get() + begin_ + kHeaderBytes, length);
  if (limits_.checksums == Checksums::kEach) {
    check_payload(header.kind, length, crc32c(payload), {payload.data() + length, trailer});
  }
  return payload;
}

/// Returns the header at begin_, which must be complete.
FrameHeader FrameReader::header() const {
  const std::byte* const at = buffer_.get() + begin_;
  if (limits_.checksums == Checksums::kEach) {
    const auto sent = load_le<std::uint32_t>(at + kHeaderChecksum);
    const std::uint32_t found = header_checksum(at);
    if (sent != found) throw_damaged("the header of a frame from " + where_, sent, found);
  }
  FrameHeader header;
  if (!load(at, limits_.checksums, limits_.kinds, &header)) {
    throw ProtocolError(where_ + " sent an invalid frame: kind " + std::to_string(load_le<std::uint64_t>(at)) +
                        ", tag " + std::to_string(header.tag) + ", " + std::to_string(header.length) + " bytes");
  }
  check(header);
  return header;
}

/// `payload`: the CRC-32C of the received payload.
void FrameReader::check_payload(FrameKind kind, std::uint64_t length, std::uint32_t payload, ByteSpan trailer) const {
  if (trailer.empty()) return;
  const auto sent = load_le<std::uint32_t>(&trailer[trailer.size() - kChecksumBytes]);
  const std::uint32_t found = trailer_checksum(payload, trailer);
  if (sent == found) return;
  throw_damaged(std::string("a ") + name_of(kind) + " of " + std::to_string(length) + " bytes from " + where_, sent,
                found);
}

void FrameReader::check(const FrameHeader& header) const {
  if (header.kind == FrameKind::kBodyBeside || header.kind == FrameKind::kRegion) {
    if (header.length <= kSmall) return;
    throw ProtocolError(where_ + " sent an announcement of " + std::to_string(header.length) +
                        " bytes; this end accepts at most " + std::to_string(kSmall));
  }
  const bool is_body = header.kind == FrameKind::kBody;
  const std::uint64_t limit = is_body ? limits_.max_body : limits_.max_message;
  if (header.length <= limit) return;
  throw ProtocolError(where_ + " sent a " + name_of(header.kind) + " of " + std::to_string(header.length) +
                      " bytes; this end accepts at most " + std::to_string(limit) + " (" + limits_.options +
                      (is_body ? "::max_body)" : "::max_message, and max_request of a listener)"));
}

void FrameReader::begin_large(const FrameHeader& header) {
  BodyMemory& memory = header.kind == FrameKind::kBody ? *limits_.body_memory : *large_messages_;
  large_.emplace(Large{header, memory.allocate(header.length), trailer_size(header.length, limits_.checksums)});
  begin_ += std::exchange(wanted_, 0);
  const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(end_ - begin_, large_->total()));
  const auto payload = static_cast<std::size_t>(std::min<std::uint64_t>(here, large_->size()));
  if (payload > 0) std::memcpy(large_->bytes.get(), buffer_.get() + begin_, payload);
  std::copy_n(buffer_.get() + begin_ + payload, here - payload, trailer_.begin());
  begin_ += here;
  note_received(here);
}

/// Counts `bytes` more bytes of the large message as received.
void FrameReader::note_received(std::uint64_t bytes) {
  if (limits_.checksums == Checksums::kEach && large_->got < large_->size()) {
    const std::uint64_t payload = std::min(bytes, large_->size() - large_->got);
    large_->checksum = crc32c(large_->checksum, {large_->bytes.get() + large_->got, static_cast<std::size_t>(payload)});
  }
  large_->got += bytes;
}

Incoming FrameReader::finish_large() {
  if (limits_.checksums == Checksums::kEach) {
    check_payload(large_->header.kind, large_->size(), large_->checksum, ByteSpan(trailer_).first(large_->trailer));
  }
  Incoming message{large_->header.kind != FrameKind::kMessage, large_->header.tag,
                   ByteSpan(large_->bytes.get(), static_cast<std::size_t>(large_->size()))};
  after_large_ = large_->size() > kSmall;
  if (large_->header.kind == FrameKind::kBody) {
    message.owner = std::move(large_->bytes);
  } else {
    held_ = std::move(large_->bytes);
  }
  large_.reset();
  return message;
}

/// Reads once. Returns false if nothing was available.
bool FrameReader::fill(std::size_t* budget) {
  std::array<iovec, 3> parts{};
  std::size_t n = 0;
  std::size_t asked = 0;
  const auto ask = [&](void* to, std::size_t bytes) {
    if (bytes == 0) return;
    parts[n++] = {to, bytes};
    asked += bytes;
  };
  std::uint64_t of_large = 0;
  if (large_) {
    // The buffer is empty: all bytes in it belonged to this message.
    begin_ = end_ = 0;
    of_large = large_->total() - large_->got;
    const std::uint64_t at = std::min(large_->got, large_->size());
    const std::uint64_t payload = large_->size() - at;
    ask(large_->bytes.get() + at, static_cast<std::size_t>(std::min<std::uint64_t>(payload, *budget)));
    if (payload <= *budget) {
      const auto missing = static_cast<std::size_t>(of_large - payload);
      ask(trailer_.data() + large_->trailer - missing, missing);
      ask(buffer_.get(), kReadAhead);
    }
  } else {
    const std::size_t room = room_for_more();  // moves end_: compilers evaluate arguments in different orders
    ask(buffer_.get() + end_, room);
  }
  const IoResult moved = stream_.read(std::span(parts).first(n));
  stream_has_more_ = moved.more;
  if (moved.state == IoResult::State::kEnd) ended_ = moved;
  if (moved.state != IoResult::State::kBytes) {
    drained_ = !moved.more;
    return false;
  }
  drained_ = moved.bytes < asked && !moved.more;
  *budget -= std::min(*budget, moved.bytes);
  const auto to_large = std::min<std::uint64_t>(moved.bytes, of_large);
  if (large_) note_received(to_large);
  end_ += moved.bytes - static_cast<std::size_t>(to_large);
  return true;
}

/// Makes room after end_ for the wanted bytes, and returns how many bytes to read there.
std::size_t FrameReader::room_for_more() {
  const std::size_t have = end_ - begin_;
  const std::size_t missing = std::max(wanted_, kHeaderBytes) - have;
  // After a large message, reads little ahead: a body probably follows, and its bytes would be copied.
  const std::size_t to_read = after_large_ ? std::max(missing, kReadAhead) : kBuffer;
  // Moves the bytes to the front only if the missing ones and some read-ahead don't fit behind them.
  if (begin_ > 0 && (have == 0 || kBuffer - end_ < std::min(missing + kReadAhead, kBuffer - have))) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, have);
    begin_ = 0;
    end_ = have;
  }
  return std::min(to_read, kBuffer - end_);
}

}  // namespace crossdock::transport::net
