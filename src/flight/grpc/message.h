#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "flight/carrier.h"

/// Messages and texts from the carrier's C types to gRPC's, and back.
namespace crossdock::flight::grpc_module {

inline std::string_view text_of(xd_bytes bytes) noexcept { return {static_cast<const char*>(bytes.data), bytes.size}; }
inline std::string string_of(xd_bytes bytes) { return std::string(text_of(bytes)); }
inline xd_bytes bytes_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

/// Takes the slices: gRPC drops them when the message was sent. The bytes aren't copied, unless a slice can't be
/// dropped.
inline grpc::ByteBuffer to_buffer(const xd_slice* parts, std::size_t n_parts) {
  std::vector<grpc::Slice> slices;
  slices.reserve(n_parts);
  for (std::size_t i = 0; i < n_parts; ++i) {
    const xd_slice& part = parts[i];
    if (part.drop == nullptr) {
      slices.emplace_back(part.data, part.size);
    } else {
      slices.emplace_back(const_cast<void*>(part.data), part.size, part.drop, part.holder);
    }
  }
  return {slices.data(), slices.size()};
}

}  // namespace crossdock::flight::grpc_module

/// A message that was received: slices of gRPC's, which share its memory.
struct xd_message {
  std::vector<grpc::Slice> slices;
};

namespace crossdock::flight::grpc_module {

/// Passes a message to an event, which takes over xd_message.
inline void pass_on(const grpc::ByteBuffer& message, const xd_call_events& events, void* data) {
  auto* const held = new xd_message;
  if (!message.Dump(&held->slices).ok()) held->slices.clear();
  std::vector<xd_bytes> parts;
  parts.reserve(held->slices.size());
  for (const grpc::Slice& slice : held->slices) parts.push_back({slice.begin(), slice.size()});
  events.message(data, parts.data(), parts.size(), held);
}

}  // namespace crossdock::flight::grpc_module
