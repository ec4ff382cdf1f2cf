#include <algorithm>
#include <memory>
#include <vector>

#include "dissociated/receiver.h"
#include "fuzz.h"

/// A server sends whatever the bytes say, in whatever order: what comes out is in sequence, and a stream that is cut
/// off never looks like one that ended.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  using Item = dissociated::Receiver::Item;
  fuzz::Input input(fuzz::bytes(data, size));
  dissociated::Receiver::Options options;
  options.max_buffered_bytes = 1 << 16;
  options.max_ahead = 64;
  dissociated::Receiver receiver(options);
  std::uint32_t due = 0;
  bool ended = false;
  std::vector<std::byte> before;  // the metadata of the last message
  const auto drain = [&] {
    while (const Item* item = receiver.next()) {
      if (item->kind == Item::Kind::kError) continue;
      fuzz::require(item->sequence == due++ && !ended);
      ended = item->kind == Item::Kind::kEnd;
      if (item->kind != Item::Kind::kMessage) continue;
      fuzz::require(!item->repeats || std::ranges::equal(item->metadata, before));
      before.assign(item->metadata.begin(), item->metadata.end());
      if (!item->message->has_body()) continue;
      fuzz::require(item->body_type == dissociated::BodyType::kRemote ||
                    item->body.size() == static_cast<std::uint64_t>(item->message->body_length()));
    }
  };
  try {
    while (!input.empty()) {
      const auto kind = input.number<std::uint8_t>();
      const auto length = input.number<std::uint16_t>();
      if (kind % 4 == 0) {
        receiver.on_untagged(input.take(length));
      } else if (kind % 4 == 1) {
        const auto tag = input.number<std::uint64_t>();
        receiver.on_tagged(tag, input.take(length));
      } else if (kind % 4 == 2) {
        const auto tag = input.number<std::uint64_t>();
        const ByteSpan body = input.take(length);
        const auto owner = std::make_shared<const std::vector<std::byte>>(body.begin(), body.end());
        receiver.on_tagged(tag, *owner, owner);
      } else {
        drain();
      }
    }
    receiver.on_disconnected();
    drain();
    fuzz::require(receiver.finished());
  } catch (const TruncatedStreamError&) {
    fuzz::require(!receiver.finished());
  } catch (const Error&) {
  }
  return 0;
}
