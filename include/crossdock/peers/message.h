#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "crossdock/core/export.h"

namespace crossdock::peers {

class Link;

/// A frame to send: bytes that `owner` keeps. The frame owns nothing but its share of `owner`, which is dropped on any
/// thread once the bytes have been copied or sent. Where send() ended with an error they may still be read until then:
/// without an owner they must outlive the hub.
struct OutgoingFrame {
  const std::byte* data = nullptr;         ///< Memory of the host; null for no bytes.
  std::uint64_t size = 0;                  ///< In bytes; 0 is a frame, too.
  std::shared_ptr<const void> owner = {};  ///< Keeps the bytes as they are; null if the caller does.
};

/// A frame that was received. Its bytes stay valid and unchanged as long as `owner` is held, also after the peer has
/// closed its connection or was killed. A frame that came by address lies in the peer's memory, which the peer uses
/// again once the last copy of `owner` was dropped, on any thread.
struct Frame {
  /// 64-aligned for frames that came by value; for others aligned as they were there.
  const std::byte* data = nullptr;
  std::uint64_t size = 0;             ///< In bytes.
  std::shared_ptr<const void> owner;  ///< Null for a frame of 0 bytes.
  bool mapped = false;                ///< It came by address.
  /// The bytes for writing, or null: set by Message::make_writable().
  std::byte* writable = nullptr;
};

/// A message that was received: its meta bytes and its frames, in the order in which they were sent. Movable. Use it on
/// one thread at a time; its frames' owners may be dropped on any thread. One that was moved from can only be
/// destroyed or assigned to.
class CROSSDOCK_EXPORT Message {
 public:
  /// Makes a message without frames and meta bytes; peers make the others.
  Message();
  Message(Message&&) noexcept;
  Message& operator=(Message&&) noexcept;
  ~Message();

  /// The meta bytes, valid as long as the message.
  std::span<const std::byte> meta() const noexcept { return meta_; }
  /// The frames. A copy of a Frame with its owner may outlive the message and the peer.
  const std::vector<Frame>& frames() const noexcept { return frames_; }
  /// Sets Frame::writable of all frames. Frames that came by address are mapped once more, privately: each page that is
  /// written to becomes a copy, and nobody else sees the writes. Such frames are sent on without a copy as long as
  /// nobody wrote to them. Copies made of `owner` before keep the read-only mapping. Frames that have bytes in common
  /// get mappings of their own, at most 256 of a message. Throws ResourceError (more than these are needed, or no
  /// mappings are left); then all frames are as they were before.
  void make_writable();

 private:
  friend class Link;
  std::vector<Frame> frames_;
  std::span<const std::byte> meta_;
  std::shared_ptr<const void> meta_owner_;
};

}  // namespace crossdock::peers
