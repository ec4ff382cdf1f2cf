#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/transport/body_memory.h"
#include "fuzz.h"
#include "transport/tcp/frame_reader.h"

/// A peer sends whatever the bytes say. However the network cuts it, the same messages come out, and the same place is
/// the wrong one.
namespace crossdock::fuzz {
namespace {

using namespace transport;
using namespace transport::tcp;

/// Gives its bytes in pieces of the sizes that `cuts` says, over and over, with nothing there in between.
class Pieces final : public ByteStream {
 public:
  Pieces(ByteSpan bytes, ByteSpan cuts) : bytes_(bytes), cuts_(cuts) {}
  Moved read(std::span<const iovec> parts) override {
    if (bytes_.empty()) return {Moved::State::kEnd, 0, 0};
    std::size_t left = bytes_.size();
    if (!cuts_.empty()) {
      const auto cut = std::to_integer<std::size_t>(cuts_[next_++ % cuts_.size()]);
      if (cut == 0) return {Moved::State::kNothing, 0, 0};
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
    return moved == 0 ? Moved{} : Moved{Moved::State::kSome, moved, 0};
  }
  Moved write(std::span<const iovec>) override { return {}; }

 private:
  ByteSpan bytes_;
  ByteSpan cuts_;
  std::size_t next_ = 0;
};

/// All that came of a connection.
struct Heard final : ControlFrames {
  struct Message {
    bool tagged;
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
};

Heard hear(ByteSpan bytes, ByteSpan cuts) {
  static const std::shared_ptr<BodyMemory> memory = make_body_pool();
  Heard heard;
  Pieces stream(bytes, cuts);
  const std::string where = "a peer";
  FrameReader reader(stream, heard, {.max_message = 1 << 12, .max_body = 1 << 14, .body_memory = memory}, where);
  // Each call takes a message, a control frame or a piece; with pieces of nothing, one more for each.
  const std::size_t calls = 16 + (bytes.size() + 1) * (cuts.size() + 2);
  try {
    for (std::size_t i = 0; i < calls && !reader.ended(); ++i) {
      while (const std::optional<Incoming> message = reader.receive()) {
        require(message->bytes.size() <= (message->owner ? std::size_t{1} << 14 : std::size_t{1} << 12));
        heard.messages.push_back({message->tagged, message->tag, {message->bytes.begin(), message->bytes.end()}});
      }
    }
    require(reader.ended().has_value());
  } catch (const ProtocolError&) {
    heard.refused = true;
  }
  return heard;
}

}  // namespace
}  // namespace crossdock::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  fuzz::Input input(fuzz::bytes(data, size));
  const ByteSpan cuts = input.take(input.number<std::uint8_t>() % 16);
  // Pieces of nothing alone would be a peer that says nothing.
  if (std::all_of(cuts.begin(), cuts.end(), [](std::byte cut) { return cut == std::byte{0}; })) return 0;
  const ByteSpan bytes = input.rest();
  fuzz::require(fuzz::hear(bytes, {}) == fuzz::hear(bytes, cuts));
  return 0;
}
