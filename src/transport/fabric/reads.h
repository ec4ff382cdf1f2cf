#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>

#include "endpoint.h"
#include "transport/transport.h"

namespace crossdock::transport::fabric {

/// Memory of the peer, as it was announced.
struct ReadableRegion {
  std::shared_ptr<const PeerRegion> region;
  std::uint64_t start = 0;  ///< The address of its first byte, as reads name it.
  std::uint64_t key = 0;
};

/// A part of a group of reads, and the region that it is in.
struct PlacedPart {
  ReadPart part;
  ReadableRegion in;
};

/// Reads that were begun together. Use it from one thread at a time. It must be owned by a shared_ptr to be posted.
class ReadGroup : public std::enable_shared_from_this<ReadGroup> {
 public:
  /// `max_read`: the longest read of the provider. `keep` keeps the memory that the parts are read to.
  ReadGroup(std::span<const PlacedPart> parts, std::uint64_t max_read, std::shared_ptr<const void> keep);

  std::size_t reads() const noexcept { return reads_.size(); }
  /// Hands more reads to the endpoint. Returns true if none are left. Throws what Endpoint::read() throws.
  bool post(Endpoint& endpoint);
  bool done() const noexcept { return done_ == reads_.size(); }

 private:
  class Read final : public Operation {
   public:
    Read(ReadGroup& group, const ReadPart& part, std::uint64_t address, std::uint64_t key) noexcept
        : Operation(Kind::kRead), group_(group), part_(part), address_(address), key_(key) {}
    void on_done(std::size_t) noexcept override { ++group_.done_; }
    bool begin(Endpoint& endpoint) {
      return endpoint.read(part_.to, static_cast<std::size_t>(part_.length), address_, key_,
                           {group_.shared_from_this(), this});
    }

   private:
    ReadGroup& group_;
    const ReadPart part_;
    const std::uint64_t address_;
    const std::uint64_t key_;
  };

  const std::shared_ptr<const void> keep_;
  std::deque<Read> reads_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
};

}  // namespace crossdock::transport::fabric
