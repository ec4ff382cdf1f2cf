#include "crossdock/peers/message.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "peers/received_frames.h"

namespace crossdock::peers {
namespace {

/// The mappings that the frames of one message may need beside one for each region: a peer may name the same bytes in
/// any number of frames, and a process has some 65,000 mappings.
constexpr std::size_t kMostExtraMappings = 256;

/// The owner of a frame that may be written to.
struct PrivateFrame {
  std::shared_ptr<const device::Region> memory;  // the private mapping
  std::shared_ptr<const void> lease;             // of the peer's memory behind it
};

}  // namespace

Message::Message() = default;
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(Message&&) noexcept = default;
Message::~Message() = default;

void Message::make_writable() {
  std::vector<Frame*> frames;
  for (Frame& frame : frames_) {
    if (frame.writable != nullptr || frame.size == 0) continue;
    if (frame.mapped) frames.push_back(&frame);
  }
  // Frames of one region share a mapping, unless they have bytes in common: a sender may send memory twice.
  struct Mapping {
    std::shared_ptr<const device::Region> memory;
    const std::byte* end;  // of the last frame in it; where the region is mapped read-only
  };
  std::map<const device::Region*, std::vector<Mapping>> mappings;
  std::size_t extra = 0;
  std::vector<std::shared_ptr<PrivateFrame>> owners;  // nothing of the message changes before all are made
  owners.reserve(frames.size());
  std::ranges::stable_sort(frames, std::less<>(), [](const Frame* frame) { return frame->data; });
  for (Frame* const frame : frames) {
    const auto& region = std::static_pointer_cast<const MappedFrame>(frame->owner)->region;
    std::vector<Mapping>& mapped = mappings[region.get()];
    auto place = std::ranges::find_if(mapped, [&](const Mapping& mapping) { return mapping.end <= frame->data; });
    if (place == mapped.end()) {
      if (!mapped.empty() && ++extra > kMostExtraMappings) {
        throw ResourceError("a message has frames that share bytes, which need more than " +
                            std::to_string(kMostExtraMappings) +
                            " mappings to be written to independently: receive it read-only, and copy them");
      }
      place = mapped.insert(place, {device::Region::map_private(region, "a received frame"), nullptr});
    }
    place->end = frame->data + frame->size;
    owners.push_back(std::make_shared<PrivateFrame>(PrivateFrame{place->memory, frame->owner}));
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Frame& frame = *frames[i];
    const auto& region = std::static_pointer_cast<const MappedFrame>(frame.owner)->region;
    frame.writable = owners[i]->memory->writable() + (frame.data - region->data());
    frame.data = frame.writable;
    frame.owner = std::move(owners[i]);
  }
  for (Frame& frame : frames_) {
    if (!frame.mapped && frame.size > 0) frame.writable = const_cast<std::byte*>(frame.data);  // of this process alone
  }
}

}  // namespace crossdock::peers
