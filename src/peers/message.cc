#include "crossdock/peers/message.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "peers/received_frames.h"

namespace crossdock::peers {
namespace {

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
    if (frame.mapped) {
      frames.push_back(&frame);
    } else {
      frame.writable = const_cast<std::byte*>(frame.data);  // bytes of this process alone
    }
  }
  // Frames of one region share a mapping, unless they have bytes in common: a sender may send memory twice.
  struct Mapping {
    std::shared_ptr<const device::Region> memory;
    const std::byte* end;  // of the last frame in it; where the region is mapped read-only
  };
  std::map<const device::Region*, std::vector<Mapping>> mappings;
  std::ranges::stable_sort(frames, std::less<>(), [](const Frame* frame) { return frame->data; });
  for (Frame* const frame : frames) {
    const auto& region = std::static_pointer_cast<const MappedFrame>(frame->owner)->region;
    std::vector<Mapping>& mapped = mappings[region.get()];
    auto place = std::ranges::find_if(mapped, [&](const Mapping& mapping) { return mapping.end <= frame->data; });
    if (place == mapped.end()) {
      place = mapped.insert(place, {device::Region::map_private(region, "a received frame"), nullptr});
    }
    place->end = frame->data + frame->size;
    auto owner = std::make_shared<PrivateFrame>(PrivateFrame{place->memory, frame->owner});
    frame->writable = place->memory->writable() + (frame->data - region->data());
    frame->data = frame->writable;
    frame->owner = std::move(owner);
  }
}

}  // namespace crossdock::peers
