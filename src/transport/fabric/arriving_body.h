#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "announcements.h"
#include "endpoint.h"

namespace crossdock::transport::fabric {

/// A body that was announced and is being received, straight into its memory. Use it from one thread at a time. It must
/// be owned by a shared_ptr to be posted.
class ArrivingBody : public std::enable_shared_from_this<ArrivingBody> {
 public:
  /// `memory` has room for the body.
  ArrivingBody(std::uint64_t tag, BodyAnnouncement announced, std::shared_ptr<std::byte> memory);

  std::uint64_t tag() const noexcept { return tag_; }
  std::uint64_t size() const noexcept { return announced_.size; }
  const std::shared_ptr<std::byte>& memory() const noexcept { return memory_; }
  /// Hands more receives to the endpoint. Returns true if none are left. Throws what Endpoint::receive() throws.
  bool post(Endpoint& endpoint);
  bool done() const noexcept { return done_ == messages_.size(); }
  /// A message had fewer bytes than announced.
  bool too_short() const noexcept { return too_short_; }

 private:
  class Message final : public Operation {
   public:
    Message(ArrivingBody& body, std::uint64_t offset, std::uint64_t size) noexcept
        : Operation(Kind::kReceive), body_(body), offset_(offset), size_(size) {}
    void on_done(std::size_t length) noexcept override {
      ++body_.done_;
      body_.too_short_ |= length != size_;
    }
    std::uint64_t offset() const noexcept { return offset_; }
    std::uint64_t size() const noexcept { return size_; }

   private:
    ArrivingBody& body_;
    const std::uint64_t offset_;
    const std::uint64_t size_;
  };

  const std::uint64_t tag_;
  const BodyAnnouncement announced_;
  const std::shared_ptr<std::byte> memory_;
  std::deque<Message> messages_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
  bool too_short_ = false;
};

}  // namespace crossdock::transport::fabric
