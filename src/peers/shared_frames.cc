#include "peers/shared_frames.h"

#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/private_memory.h"
#include "peers/wire.h"

namespace crossdock::peers {

std::optional<SharedFrame> FrameSharer::find(const OutgoingFrame& frame) const {
  try {
    if (auto pool = runtime_->find_pool(frame.data, frame.size)) {
      auto lease = pool->lend(frame.data, frame.size);
      if (!lease) return std::nullopt;
      return SharedFrame{std::move(lease->region), lease->offset, nullptr};
    }
    if (auto received = device::received_memory(frame.data, frame.size)) {
      return SharedFrame{std::move(received->region), received->offset, frame.owner};
    }
  } catch (const Error&) {  // no mappings or descriptors are left, for example: a copy may need none
  }
  return std::nullopt;
}

std::vector<SharedFrame> FrameSharer::copy(std::span<const OutgoingFrame> frames) const {
  std::uint64_t size = 0;
  for (const OutgoingFrame& frame : frames) size = align_up(size, wire::kAlignment) + frame.size;
  const std::shared_ptr<std::byte> memory = pool_->allocate(size);
  std::vector<std::uint64_t> offsets;
  std::vector<CopyPart> parts;
  offsets.reserve(frames.size());
  parts.reserve(frames.size());
  std::uint64_t at = 0;
  for (const OutgoingFrame& frame : frames) {
    at = align_up(at, wire::kAlignment);
    parts.push_back({memory.get() + at, frame.data, frame.size});
    offsets.push_back(at);
    at += frame.size;
  }
  copy_in_parts(parts, help_);
  const auto lease = pool_->lend(memory.get(), size);
  if (!lease) throw ResourceError("a Pool can't lend memory that was copied into it");
  std::vector<SharedFrame> shared;
  shared.reserve(frames.size());
  for (const std::uint64_t offset : offsets) {
    shared.push_back({lease->region, lease->offset + offset, nullptr});
  }
  return shared;
}

}  // namespace crossdock::peers
