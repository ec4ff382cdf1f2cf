#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz.h"
#include "transport/body_memory.h"
#include "transport/net/crc32c.h"
#include "transport/net/frame_reader.h"
#include "transport/net/frame_writer.h"

/// A peer sends whatever the bytes say. However the network cuts it, the same messages come out, and the same place is
/// the wrong one. What came out is sent once more, with checksums: the same comes out again, and with one byte changed
/// on the way nothing else does.
namespace crossdock::fuzz {
namespace {

using namespace transport;
using namespace transport::net;

/// Gives its bytes in pieces of the sizes that `cuts` says, over and over, with nothing there in between.
class Pieces final : public ByteStream {
 public:
  Pieces(ByteSpan bytes, ByteSpan cuts) : bytes_(bytes), cuts_(cuts) {}
  IoResult read(std::span<const iovec> parts) override {
    if (bytes_.empty()) return {IoResult::State::kEnd, 0, 0};
    std::size_t left = bytes_.size();
    if (!cuts_.empty()) {
      const auto cut = std::to_integer<std::size_t>(cuts_[next_++ % cuts_.size()]);
      if (cut == 0) return {IoResult::State::kWouldBlock, 0, 0};
      left = std::min(left, cut);
    }
    std::size_t moved = 0;
    for (const iovec& part : parts) {
      const std::size_t count = std::min(part.iov_len, left - moved);
      if (count == 0) continue;
      std::memcpy(part.iov_base, bytes_.data(), count);
      bytes_ = bytes_.subspan(count);
      moved += count;
    }
    return moved == 0 ? IoResult{} : IoResult{IoResult::State::kBytes, moved, 0};
  }
  IoResult write(std::span<const iovec>) override { return {}; }

 private:
  ByteSpan bytes_;
  ByteSpan cuts_;
  std::size_t next_ = 0;
};

/// Keeps what is written.
class Collected final : public ByteStream {
 public:
  IoResult read(std::span<const iovec>) override { return {}; }
  IoResult write(std::span<const iovec> parts) override {
    IoResult moved{IoResult::State::kBytes};
    for (const iovec& part : parts) {
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      bytes.insert(bytes.end(), from, from + part.iov_len);
      moved.bytes += part.iov_len;
    }
    return moved;
  }
  std::vector<std::byte> bytes;
};

/// All that came of a connection.
struct Heard final : ControlFrames {
  struct Message {
    FrameKind kind;  // kTagged or kBody where it has a tag
    std::uint64_t tag;
    std::vector<std::byte> bytes;
    bool operator==(const Message&) const = default;
  };
  std::vector<Message> messages;
  std::vector<std::uint64_t> control;
  bool refused = false;
  bool operator==(const Heard& other) const {
    return messages == other.messages && control == other.control && refused == other.refused;
  }
  void taken(std::uint64_t count) override { control.push_back(count * 4); }
  void window(std::uint64_t count) override { control.push_back(count * 4 + 1); }
  void goodbye() override { control.push_back(2); }
  void beside(FrameKind, std::uint64_t, ByteSpan) override { std::abort(); }
};

Heard hear(ByteSpan bytes, ByteSpan cuts, Checksums checksums) {
  static const std::shared_ptr<BodyMemory> memory = make_body_pool();
  Heard heard;
  Pieces stream(bytes, cuts);
  const std::string where = "a peer";
  FrameReader reader(stream, heard,
                     {.max_message = 1 << 12, .max_body = 1 << 14, .body_memory = memory, .checksums = checksums},
                     where);
  // Each call takes a message, a control frame or a piece; with pieces of nothing, one more for each.
  const std::size_t calls = 16 + (bytes.size() + 1) * (cuts.size() + 2);
  try {
    for (std::size_t i = 0; i < calls && !reader.ended(); ++i) {
      while (const std::optional<Incoming> message = reader.receive()) {
        require(message->bytes.size() <= (message->owner ? std::size_t{1} << 14 : std::size_t{1} << 12));
        const FrameKind kind = message->owner    ? FrameKind::kBody
                               : message->tagged ? FrameKind::kTagged
                                                 : FrameKind::kMessage;
        heard.messages.push_back({kind, message->tag, {message->bytes.begin(), message->bytes.end()}});
      }
    }
    require(reader.ended().has_value());
  } catch (const ProtocolError&) {
    heard.refused = true;
  }
  return heard;
}

std::vector<std::byte> send_with_checksums(const std::vector<Heard::Message>& messages) {
  Collected stream;
  FrameWriter writer(stream, 1 << 16, Checksums::kEach);
  for (const Heard::Message& message : messages) {
    const ByteSpan bytes(message.bytes);
    const ByteSpan head = bytes.first(bytes.size() / 3);
    const ByteSpan tail = bytes.subspan(head.size());
    if (message.kind == FrameKind::kBody) {
      const std::array parts = {head, tail};
      require(writer.send_body(message.tag, parts, bytes.size(), nullptr));
    } else {
      require(writer.send(message.kind, message.tag, head, tail));
    }
  }
  require(!writer.pending());
  return stream.bytes;
}

void check_checksums(const std::vector<Heard::Message>& messages, ByteSpan cuts, std::uint32_t random) {
  std::vector<std::byte> sent = send_with_checksums(messages);
  const Heard whole = hear(sent, cuts, Checksums::kEach);
  require(!whole.refused && whole.messages == messages);
  if (sent.empty()) return;
  sent[random % sent.size()] ^= static_cast<std::byte>(1 + (random >> 8) % 255);
  const Heard damaged = hear(sent, cuts, Checksums::kEach);
  require(damaged.refused && damaged.control.empty() && damaged.messages.size() < messages.size());
  require(std::equal(damaged.messages.begin(), damaged.messages.end(), messages.begin()));
}

}  // namespace
}  // namespace crossdock::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  fuzz::Input input(fuzz::bytes(data, size));
  const auto plan = input.number<std::uint8_t>();
  const ByteSpan cuts = input.take(plan % 16);
  const auto checksums = (plan & 16) == 0 ? transport::net::Checksums::kNone : transport::net::Checksums::kEach;
  // Pieces of nothing alone would be a peer that says nothing.
  if (std::all_of(cuts.begin(), cuts.end(), [](std::byte cut) { return cut == std::byte{0}; })) return 0;
  const ByteSpan bytes = input.rest();
  const fuzz::Heard heard = fuzz::hear(bytes, {}, checksums);
  fuzz::require(heard == fuzz::hear(bytes, cuts, checksums));
  fuzz::check_checksums(heard.messages, cuts, transport::net::crc32c(bytes));
  return 0;
}
