#include "session/flight/message.h"

#include <atomic>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "flight/data_parts.h"

namespace crossdock::session {
namespace {

/// A message that the carrier holds, until it has dropped each of its slices.
struct Held {
  OutgoingMessage message;
  std::atomic<std::size_t> slices;
};

void drop(void* holder) {
  auto* const held = static_cast<Held*>(holder);
  if (held->slices.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held;
}

}  // namespace

void write(const CarrierLibrary& carrier, xd_call* call, OutgoingMessage message) {
  std::vector<xd_slice> slices;
  slices.reserve(message.parts.size() + 1);
  auto held = std::unique_ptr<Held>(new Held{std::move(message), {0}});
  const auto add = [&](ByteSpan bytes) {
    if (!bytes.empty()) slices.push_back({bytes.data(), bytes.size(), drop, held.get()});
  };
  add(held->message.head);
  for (const ByteSpan part : held->message.parts) add(part);
  // Without bytes it is an empty message, which protobuf has too.
  if (!slices.empty()) held.release()->slices = slices.size();
  carrier.calls().write(call, slices.data(), slices.size());
}

ReceivedMessage::ReceivedMessage(const CarrierLibrary& carrier, const xd_bytes* parts, std::size_t n_parts,
                                 xd_message* held)
    : carrier_(carrier), held_(held) {
  parts_.reserve(n_parts);
  for (std::size_t i = 0; i < n_parts; ++i) {
    parts_.emplace_back(static_cast<const std::byte*>(parts[i].data), parts[i].size);
    size_ += parts[i].size;
  }
}

ReceivedMessage::~ReceivedMessage() { carrier_.calls().drop_message(held_); }

flight::Bytes ReceivedMessage::request() const {
  if (size_ > kMostRequest) {
    throw ResourceError("a request of " + std::to_string(size_) + " bytes is too long, " +
                        std::to_string(kMostRequest) + " are the most");
  }
  return whole();
}

flight::Bytes ReceivedMessage::whole() const {
  flight::Bytes bytes(size_);
  flight::copy_out(parts_, 0, size_, bytes.data());
  return bytes;
}

}  // namespace crossdock::session
