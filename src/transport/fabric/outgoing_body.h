#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "announcements.h"
#include "core/bytes.h"
#include "endpoint.h"
#include "transport/piece_buffer.h"

namespace crossdock::transport::fabric {

/// A body that is being sent. Use it from one thread at a time. It must be owned by a shared_ptr to be posted.
///
/// A message of libfabric takes Endpoint::kMaxParts parts. Parts that follow each other in memory become one. Small
/// parts are copied together with their neighbours, and the body becomes several messages if it has more parts than one
/// message takes. Memory of a file is copied by the system, which reports that the file was truncated instead of
/// raising SIGBUS.
class OutgoingBody : public std::enable_shared_from_this<OutgoingBody> {
 public:
  /// `parts` have `size` bytes altogether, at least one, and stay readable as long as `keep` is held. The messages have
  /// the tags from `first_tag` on. Throws ResourceError, FileChangedError (a file was truncated).
  OutgoingBody(std::span<const ByteSpan> parts, std::uint64_t size, std::uint64_t first_tag, std::uint64_t max_message,
               std::shared_ptr<const void> keep);

  BodyAnnouncement announcement() const;
  std::size_t messages() const noexcept { return messages_.size(); }
  std::uint64_t size() const noexcept { return size_; }
  /// Hands more messages to the endpoint. Returns true if none are left. Throws what Endpoint::send() throws.
  bool post(Endpoint& endpoint);
  /// Whether the peer has received all of it.
  bool done() const noexcept { return done_ == messages_.size(); }

 private:
  class Message final : public Operation {
   public:
    Message(OutgoingBody& body, std::vector<iovec> parts, std::uint64_t size) noexcept
        : Operation(Kind::kSend), body_(body), parts_(std::move(parts)), size_(size) {}
    void on_done(std::size_t) noexcept override { ++body_.done_; }
    std::span<const iovec> parts() const noexcept { return parts_; }
    std::uint64_t size() const noexcept { return size_; }

   private:
    OutgoingBody& body_;
    const std::vector<iovec> parts_;
    const std::uint64_t size_;
  };

  void divide(std::span<const ByteSpan> parts, std::uint64_t max_message);
  std::vector<ByteSpan> join_small(std::span<const ByteSpan> parts, std::uint64_t small);

  const std::uint64_t size_;
  const std::uint64_t first_tag_;
  std::shared_ptr<const void> keep_;
  std::vector<std::byte> joined_;           // copies of small parts
  std::unique_ptr<PieceBuffer> from_file_;  // a copy of the whole body
  std::deque<Message> messages_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
};

}  // namespace crossdock::transport::fabric
