#include "outgoing_body.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/changing_memory.h"
#include "transport/net/frames.h"

namespace crossdock::transport::fabric {
namespace {

/// A part up to this size is copied: about what a further message costs.
constexpr std::uint64_t kSmall = 16 << 10;
/// So many that their announcement fits.
constexpr std::size_t kMaxMessages = (net::kMaxAnnouncement - 2 * sizeof(std::uint64_t)) / sizeof(std::uint64_t);

iovec part_of(ByteSpan bytes) noexcept { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

/// Makes one part of parts that follow each other in memory.
std::vector<ByteSpan> merge_adjacent(std::span<const ByteSpan> parts) {
  std::vector<ByteSpan> out;
  for (const ByteSpan part : parts) {
    if (part.empty()) continue;
    if (!out.empty() && out.back().data() + out.back().size() == part.data()) {
      out.back() = {out.back().data(), out.back().size() + part.size()};
    } else {
      out.push_back(part);
    }
  }
  return out;
}

}  // namespace

OutgoingBody::OutgoingBody(std::span<const ByteSpan> parts, std::uint64_t size, std::uint64_t first_tag,
                           std::uint64_t max_message, std::shared_ptr<const void> keep)
    : size_(size), first_tag_(first_tag), keep_(std::move(keep)) {
  if (std::ranges::any_of(parts, [](ByteSpan part) { return device::in_mapped_file(part.data()); })) {
    from_file_ = copy_of(parts, size);
    keep_.reset();
    const ByteSpan content = from_file_->content();
    divide({&content, 1}, max_message);
    return;
  }
  const std::vector<ByteSpan> merged = merge_adjacent(parts);
  std::uint64_t small = kSmall;
  std::vector<ByteSpan> joined = join_small(merged, small);
  while (joined.size() / Endpoint::kMaxParts >= kMaxMessages) joined = join_small(merged, small *= 4);
  divide(joined, max_message);
}

/// Replaces each run of parts up to `small` bytes by one part, a copy of them.
std::vector<ByteSpan> OutgoingBody::join_small(std::span<const ByteSpan> parts, std::uint64_t small) {
  std::vector<ByteSpan> out;
  joined_.clear();
  std::uint64_t bytes = 0;
  for (const ByteSpan part : parts) bytes += part.size() <= small ? part.size() : 0;
  joined_.reserve(static_cast<std::size_t>(bytes));  // the parts below point into it
  bool joins = false;                                // the last part of `out` is a copy that can grow
  for (const ByteSpan part : parts) {
    if (part.size() > small) {
      out.push_back(part);
      joins = false;
      continue;
    }
    const std::size_t at = joined_.size();
    joined_.insert(joined_.end(), part.begin(), part.end());
    if (joins) {
      out.back() = {out.back().data(), out.back().size() + part.size()};
    } else {
      out.emplace_back(joined_.data() + at, part.size());
      joins = true;
    }
  }
  return out;
}

/// Makes messages of `parts`, in order.
void OutgoingBody::divide(std::span<const ByteSpan> parts, std::uint64_t max_message) {
  std::vector<iovec> of_message;
  std::uint64_t size = 0;
  const auto end_message = [&] {
    if (!of_message.empty()) messages_.emplace_back(*this, std::exchange(of_message, {}), std::exchange(size, 0));
  };
  for (ByteSpan part : parts) {
    while (!part.empty()) {
      const ByteSpan piece =
          part.first(static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), max_message - size)));
      of_message.push_back(part_of(piece));
      size += piece.size();
      part = part.subspan(piece.size());
      if (of_message.size() == Endpoint::kMaxParts || size == max_message) end_message();
    }
  }
  end_message();
}

BodyAnnouncement OutgoingBody::announcement() const {
  BodyAnnouncement out{.size = size_, .first_tag = first_tag_, .lengths = {}};
  for (const Message& message : messages_) out.lengths.push_back(message.size());
  return out;
}

bool OutgoingBody::post(Endpoint& endpoint) {
  while (posted_ < messages_.size()) {
    Message& next = messages_[posted_];
    if (!endpoint.send(next.parts(), first_tag_ + posted_, {shared_from_this(), &next})) return false;
    ++posted_;
  }
  return true;
}

}  // namespace crossdock::transport::fabric
