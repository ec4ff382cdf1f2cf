#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "byte_stream.h"
#include "crossdock/transport/body_memory.h"
#include "crossdock/transport/transport.h"
#include "frames.h"

namespace crossdock::transport::tcp {

struct ReadLimits {
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::shared_ptr<BodyMemory> body_memory;
  Checksums checksums = Checksums::kNone;
};

/// Who hears of the frames that are no messages. May throw ProtocolError.
class ControlFrames {
 public:
  virtual void taken(std::uint64_t messages) = 0;
  virtual void window(std::uint64_t messages) = 0;
  virtual void goodbye() = 0;

 protected:
  ~ControlFrames() = default;
};

/// Makes messages of bytes. Small messages are handed out where they were read; a body is read straight into memory of
/// its own, but for what came along with its header. With checksums, no length is used and no message handed out before
/// its checksum was found right; a body's is computed read by read. One thread at a time.
class FrameReader {
 public:
  /// `where` names the peer, for errors; it and the others must outlive this.
  FrameReader(ByteStream& stream, ControlFrames& control, ReadLimits limits, const std::string& where);

  /// The next message, if it is there whole. Reads a bounded number of bytes. Its bytes, if it has no owner, are valid
  /// until the next call. Throws ProtocolError for what is no frame, or over a limit. At the end of the stream: none,
  /// and ended().
  std::optional<Incoming> receive();

  /// Where bodies go from the next one on.
  void receive_into(std::shared_ptr<BodyMemory> memory) noexcept { limits_.body_memory = std::move(memory); }

  /// Whether the next receive() may find something without reading. Known after a receive().
  bool has_more() const noexcept { return has_more_; }
  /// Whether the stream held no more bytes when it was last read.
  bool drained() const noexcept { return drained_; }
  const std::optional<Moved>& ended() const noexcept { return ended_; }
  /// Whether a message was begun.
  bool in_message() const noexcept { return large_.has_value() || begin_ != end_; }

 private:
  /// A message that gets memory of its own.
  struct Large {
    FrameHeader header;
    std::shared_ptr<std::byte> bytes;
    std::size_t trailer = 0;     // bytes that follow the payload
    std::uint64_t got = 0;       // of both
    std::uint32_t checksum = 0;  // of what came of the payload
    std::uint64_t size() const noexcept { return header.length; }
    std::uint64_t total() const noexcept { return header.length + trailer; }
  };
  struct FreeBuffer {
    void operator()(std::byte* bytes) const noexcept { ::operator delete (bytes, std::align_val_t{64}); }
  };

  std::optional<Incoming> take();
  void begin_large(const FrameHeader& header);
  void extend_large(std::uint64_t bytes);
  Incoming finish_large();
  FrameHeader header() const;
  void check(const FrameHeader& header) const;
  void check_payload(FrameKind kind, std::uint64_t length, std::uint32_t payload, ByteSpan trailer) const;
  bool fill(std::size_t* budget);
  std::size_t room_for_more();

  ByteStream& stream_;
  ControlFrames& control_;
  ReadLimits limits_;
  const std::string& where_;
  const std::shared_ptr<BodyMemory> large_messages_;  // those that aren't bodies

  // From a frame's start on: begin_ is a multiple of kFrameAlignment, and so is where a payload begins.
  std::unique_ptr<std::byte, FreeBuffer> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t wanted_ = 0;  // bytes from begin_ on without which take() finds nothing
  std::optional<Large> large_;
  Trailer trailer_{};                // of large_
  std::shared_ptr<std::byte> held_;  // a large message that was handed out
  bool after_large_ = false;
  bool has_more_ = false;
  bool drained_ = false;
  bool goodbye_ = false;
  std::optional<Moved> ended_;
};

}  // namespace crossdock::transport::tcp
