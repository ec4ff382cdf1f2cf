#include "peers/wire.h"

#include <algorithm>
#include <string>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::peers::wire {
namespace {

constexpr std::size_t kOpenBytes = 48;  // without the text
constexpr std::size_t kMaxText = 64;
constexpr std::size_t kReturnBytes = 24;  // without the regions
constexpr std::size_t kReleasedBytes = 8;

template <typename T>
void put(std::vector<std::byte>& to, std::size_t at, T value) noexcept {
  store_le(to.data() + at, value);
}
template <typename T>
T get(ByteSpan from, std::size_t at) noexcept {
  return load_le<T>(from.data() + at);
}

void require(bool holds, const char* what) {
  if (!holds) throw ProtocolError(what);
}

}  // namespace

std::vector<std::byte> encode(const Open& open) {
  const std::size_t text = std::min(open.software.size(), kMaxText);
  std::vector<std::byte> message(kOpenBytes + text);
  put(message, 0, static_cast<std::uint32_t>(Control::kOpen));
  put(message, 4, open.version);
  put(message, 8, open.features);
  put(message, 16, open.window_messages);
  put(message, 20, open.max_frames);
  put(message, 24, open.window_bytes);
  put(message, 32, open.max_body);
  put(message, 40, open.max_regions);
  put(message, 44, static_cast<std::uint32_t>(text));
  std::ranges::copy(as_bytes(open.software).first(text), message.begin() + kOpenBytes);
  return message;
}

std::vector<std::byte> encode(const Return& returned) {
  std::vector<std::byte> message(kReturnBytes + kReleasedBytes * returned.released.size());
  put(message, 0, static_cast<std::uint32_t>(Control::kReturn));
  put(message, 4, static_cast<std::uint32_t>(returned.released.size()));
  put(message, 8, returned.taken_messages);
  put(message, 16, returned.taken_bytes);
  std::size_t at = kReturnBytes;
  for (const Released& released : returned.released) {
    put(message, at, released.region);
    put(message, at + 4, released.frames);
    at += kReleasedBytes;
  }
  return message;
}

std::vector<std::byte> encode(End end) {
  std::vector<std::byte> message(8);
  put(message, 0, static_cast<std::uint32_t>(Control::kEnd));
  put(message, 4, static_cast<std::uint32_t>(end));
  return message;
}

std::vector<std::byte> encode_start(std::span<const FrameEntry> frames, ByteSpan meta) {
  const bool values =
      std::ranges::any_of(frames, [](const FrameEntry& frame) { return frame.address == 0 && frame.size > 0; });
  const std::size_t end = kHeaderBytes + kEntryBytes * frames.size() + meta.size();
  std::vector<std::byte> start(values ? align_up(end, kAlignment) : end);
  put(start, 0, static_cast<std::uint32_t>(frames.size()));
  put(start, 8, static_cast<std::uint64_t>(meta.size()));
  std::size_t at = kHeaderBytes;
  for (const FrameEntry& frame : frames) {
    put(start, at, frame.size);
    put(start, at + 8, frame.address);
    put(start, at + 16, frame.region);
    at += kEntryBytes;
  }
  std::ranges::copy(meta, start.begin() + static_cast<std::ptrdiff_t>(at));
  return start;
}

Control control_of(ByteSpan message) {
  require(message.size() >= 8, "a control message is shorter than 8 bytes");
  const auto kind = get<std::uint32_t>(message, 0);
  if (kind < 1 || kind > 3) throw ProtocolError("a control message has the unknown kind " + std::to_string(kind));
  return static_cast<Control>(kind);
}

Open decode_open(ByteSpan message) {
  require(message.size() >= kOpenBytes, "OPEN is too short");
  Open open{.version = get<std::uint32_t>(message, 4),
            .features = get<std::uint64_t>(message, 8),
            .window_messages = get<std::uint32_t>(message, 16),
            .max_frames = get<std::uint32_t>(message, 20),
            .window_bytes = get<std::uint64_t>(message, 24),
            .max_body = get<std::uint64_t>(message, 32),
            .max_regions = get<std::uint32_t>(message, 40)};
  const auto text = get<std::uint32_t>(message, 44);
  require(text <= kMaxText && text <= message.size() - kOpenBytes, "OPEN has a version text that is too long");
  require(open.window_messages > 0, "OPEN has a window of 0 messages");
  // Text of another process becomes part of our errors and logs.
  open.software = printable(as_text(message.subspan(kOpenBytes, text)));
  return open;
}

Return decode_return(ByteSpan message) {
  require(message.size() >= kReturnBytes, "RETURN is too short");
  const auto count = get<std::uint32_t>(message, 4);
  require(count <= kMaxReturns, "RETURN has more regions than are allowed");
  require(message.size() == kReturnBytes + kReleasedBytes * std::size_t{count},
          "RETURN has another length than its regions need");
  Return returned{.taken_messages = get<std::uint64_t>(message, 8), .taken_bytes = get<std::uint64_t>(message, 16)};
  returned.released.reserve(count);
  for (std::size_t at = kReturnBytes; at < message.size(); at += kReleasedBytes) {
    returned.released.push_back({get<std::uint32_t>(message, at), get<std::uint32_t>(message, at + 4)});
  }
  return returned;
}

End decode_end(ByteSpan message) {
  require(message.size() == 8, "END doesn't have 8 bytes");
  const auto reason = get<std::uint32_t>(message, 4);
  require(reason <= 1, "END has an unknown reason");
  return static_cast<End>(reason);
}

Body decode_body(ByteSpan body, std::uint32_t max_frames) {
  require(body.size() >= kHeaderBytes, "a message is shorter than its header");
  const auto count = get<std::uint32_t>(body, 0);
  const auto meta = get<std::uint64_t>(body, 8);
  require(get<std::uint32_t>(body, 4) == 0, "a message's header has bytes that must be 0");
  if (count > max_frames) {
    throw ProtocolError("a message has " + std::to_string(count) + " frames, but this end takes " +
                        std::to_string(max_frames) + " (PeerOptions::max_frames)");
  }
  const std::size_t table = kHeaderBytes + kEntryBytes * std::size_t{count};
  require(table <= body.size(), "a message is shorter than its table of frames");
  require(meta <= body.size() - table, "a message is shorter than its meta bytes");
  Body parts;
  parts.meta = body.subspan(table, meta);
  parts.frames.reserve(count);
  parts.values.reserve(count);
  std::uint64_t end = table + meta;
  for (std::size_t at = kHeaderBytes; at < table; at += kEntryBytes) {
    const FrameEntry frame{get<std::uint64_t>(body, at), get<std::uint64_t>(body, at + 8),
                           get<std::uint32_t>(body, at + 16)};
    require(get<std::uint32_t>(body, at + 20) == 0, "a frame has bytes that must be 0");
    require(frame.address == 0 || frame.size > 0, "a frame of 0 bytes has an address");
    ByteSpan value;
    if (frame.address == 0 && frame.size > 0) {
      const std::uint64_t from = align_up(end, kAlignment);
      require(from <= body.size() && frame.size <= body.size() - from, "a message is shorter than its frames");
      value = body.subspan(from, frame.size);
      end = from + frame.size;
    }
    parts.frames.push_back(frame);
    parts.values.push_back(value);
  }
  require(end == body.size(), "a message is longer than its frames");
  return parts;
}

}  // namespace crossdock::peers::wire
