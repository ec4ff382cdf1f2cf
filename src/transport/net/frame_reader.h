#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "byte_stream.h"
#include "frames.h"
#include "transport/body_memory.h"
#include "transport/transport.h"

namespace crossdock::transport::net {

struct ReadLimits {
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::shared_ptr<BodyMemory> body_memory;
  Checksums checksums = Checksums::kNone;
  FrameKinds kinds = FrameKinds::kStream;
  const char* options = "";  ///< The structure with the limits, for errors: "TcpOptions".
};

/// Receives the frames that the reader doesn't return. Its functions may throw ProtocolError.
class ControlFrames {
 public:
  virtual void taken(std::uint64_t messages) = 0;
  virtual void window(std::uint64_t messages) = 0;
  virtual void goodbye() = 0;
  /// Called with FrameKinds::kBeside only, for its kinds. receive() then returns, so that the caller decides whether to
  /// go on. `payload` is 8-aligned, and valid during the call.
  virtual void beside(FrameKind kind, std::uint64_t number, ByteSpan payload) = 0;

 protected:
  ~ControlFrames() = default;
};

/// Decodes messages from bytes. Small messages are returned in the buffer into which they were read. A body is read
/// directly into memory of its own, except for bytes that were read together with its header. With checksums, no length
/// is used and no message returned before its checksum was verified; a body's checksum is updated after each read. Use
/// it from one thread at a time.
class FrameReader {
 public:
  /// `where` names the peer in errors. All references must outlive this. `stream_has_more`: the stream itself may hold
  /// bytes that have left its socket.
  FrameReader(ByteStream& stream, ControlFrames& control, ReadLimits limits, const std::string& where,
              bool stream_has_more = false);

  /// Returns the next message if it is complete. Reads a bounded number of bytes. If the message has no owner, its
  /// bytes are valid until the next call. At the end of the stream, returns no message, and ended() is set. Throws
  /// ProtocolError for an invalid frame, or one over a limit.
  std::optional<Incoming> receive();

  /// Sets the memory for bodies, from the next body on.
  void receive_into(std::shared_ptr<BodyMemory> memory) noexcept { limits_.body_memory = std::move(memory); }

  /// Whether the next receive() may make progress at once: bytes are left in the buffer or in the stream, or the last
  /// call stopped at its limit. Valid after a receive(), or where the stream has bytes at first.
  bool has_more() const noexcept { return has_more_ || stream_has_more_; }
  /// Whether the last read has emptied the stream.
  bool drained() const noexcept { return drained_; }
  const std::optional<IoResult>& ended() const noexcept { return ended_; }
  /// Whether a message was received in part.
  bool in_message() const noexcept { return large_.has_value() || begin_ != end_; }
  /// The bytes that are missing of a message that was received in part, if it has memory of its own.
  std::uint64_t missing() const noexcept { return large_ ? large_->total() - large_->got : 0; }

 private:
  /// A message that is received into memory of its own.
  struct Large {
    FrameHeader header;
    std::shared_ptr<std::byte> bytes;
    std::size_t trailer = 0;     // bytes that follow the payload
    std::uint64_t got = 0;       // bytes received of payload and trailer
    std::uint32_t checksum = 0;  // of the received part of the payload
    std::uint64_t size() const noexcept { return header.length; }
    std::uint64_t total() const noexcept { return header.length + trailer; }
  };
  struct FreeBuffer {
    void operator()(std::byte* bytes) const noexcept { ::operator delete (bytes, std::align_val_t{64}); }
  };

  std::optional<Incoming> take();
  void begin_large(const FrameHeader& header);
  void note_received(std::uint64_t bytes);
  Incoming finish_large();
  std::optional<ByteSpan> small_payload(const FrameHeader& header);
  FrameHeader header() const;
  void check(const FrameHeader& header) const;
  void check_payload(FrameKind kind, std::uint64_t length, std::uint32_t payload, ByteSpan trailer) const;
  bool fill(std::size_t* budget);
  std::size_t room_for_more();

  ByteStream& stream_;
  ControlFrames& control_;
  ReadLimits limits_;
  const std::string& where_;
  const std::shared_ptr<BodyMemory> large_messages_;  // memory for large messages that aren't bodies

  // Begins at the start of a frame: begin_ is a multiple of kFrameAlignment, and so is the offset of each payload.
  std::unique_ptr<std::byte, FreeBuffer> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t wanted_ = 0;  // take() needs at least this many bytes, counted from begin_
  std::optional<Large> large_;
  Trailer trailer_{};                // of large_
  std::shared_ptr<std::byte> held_;  // a large message that was returned
  bool after_large_ = false;
  bool paused_ = false;  // after a frame that went to ControlFrames::beside()
  bool has_more_ = false;
  bool stream_has_more_;  // IoResult::more of the last read
  bool drained_ = false;
  bool goodbye_ = false;
  std::optional<IoResult> ended_;
};

}  // namespace crossdock::transport::net
