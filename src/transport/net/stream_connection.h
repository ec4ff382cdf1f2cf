#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "byte_stream.h"
#include "core/fork.h"
#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "frame_reader.h"
#include "frame_writer.h"
#include "stream_names.h"
#include "transport/internal/handshake.h"
#include "transport/transport.h"
#include "window.h"

namespace crossdock::transport::net {

/// The limits of this end of a connection.
struct StreamLimits {
  std::uint64_t max_message = 0;  ///< That this end sends.
  std::uint64_t max_body = 0;     ///< That this end accepts.
  std::size_t queue_bytes = 0;    ///< For the writer.
  FrameKinds kinds = FrameKinds::kStream;
};

/// The socket of a connection that has been destroyed, for a transport that still needs it.
struct Link {
  std::shared_ptr<SocketStream> stream;
  UniqueFd poll;  ///< Contains the socket, whose end makes it readable, and what StreamConnection::watch() has added.
};
/// Returns whether the peer has closed its end, or does within `wait_ms`. There may be unread bytes.
bool hung_up(const SocketStream& stream, int wait_ms = 0) noexcept;
/// Tells the peer that everything was sent.
void send_goodbye(Link& link) noexcept;

/// Either end of a connection of messages over a socket, encrypted or not, after the handshake.
///
/// Only the receiving half reads, so only it learns which messages the peer has taken. Both halves use the writer.
class StreamConnection : public Connection, private ControlFrames {
 public:
  /// The handshake that has used `stream` may own it, too, but uses it no more once this is used.
  StreamConnection(std::shared_ptr<SocketStream> stream, const Introduction& introduction, const StreamLimits& limits,
                   const StreamNames& names);
  ~StreamConnection() override;
  StreamConnection(const StreamConnection&) = delete;
  StreamConnection& operator=(const StreamConnection&) = delete;

  const Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan head, ByteSpan tail) override { return send_message(FrameKind::kMessage, 0, head, tail); }
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override {
    return send_message(FrameKind::kTagged, tag, head, tail);
  }
  void cork() noexcept override { corked_ = true; }
  std::uint64_t max_message() const noexcept override { return send_limit_; }
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  std::uint64_t max_body() const noexcept override { return body_limit_; }
  std::size_t in_flight() override;
  bool below_window(std::size_t window) override;
  bool flush() override;
  std::uint64_t pushed() const noexcept override { return writer_.pushed(); }

  std::optional<Incoming> receive() override;
  void acknowledge_all() override { acknowledge(true); }
  void receive_into(std::shared_ptr<BodyMemory> memory) override { reader_.receive_into(memory ? memory : pool_); }

  bool readable() const override;
  bool in_bulk() const override { return reader_.missing() >= kBulk; }
  bool prepare_sleep() override;
  void wake() override;
  int descriptor() const noexcept override { return poll_.get(); }

 protected:
  // --- for a transport that carries bodies beside the stream ---

  /// Returns the next message, and counts it as taken: receive() without the checks that come first.
  virtual std::optional<Incoming> take();
  /// Whether the stream is to be read. While it isn't, only its end wakes a sleeper.
  virtual bool takes_input() const noexcept { return true; }
  /// Whether the transport has something to receive that the stream doesn't tell.
  virtual bool has_other_news() const noexcept { return false; }
  void beside(FrameKind kind, std::uint64_t number, ByteSpan payload) override;

  /// Throws ForkError, ConnectionError.
  void check_usable() const;
  /// Throws InvalidArgumentError if a body of this size is over the peer's limit.
  void check_body(std::uint64_t size) const;
  /// Sends a frame, as send() does.
  bool send_frame(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  [[noreturn]] void throw_gone() const;
  bool gone() const noexcept { return gone_.load(std::memory_order_relaxed); }
  /// Wakes the thread that sleeps on the descriptor, if there is one.
  void wake_sleeper();
  /// Has descriptor() watch a further descriptor, until that is closed. Throws SystemError.
  void watch(int descriptor);

  // Of the receiving half:
  /// Does what comes before reading the stream: forgets the room that readable() has told of, and sends more.
  void begin_turn();
  /// Returns the next message of the stream, which isn't counted.
  std::optional<Incoming> next_of_stream() { return reader_.receive(); }
  void count(const Incoming& message);
  /// Whether nothing follows what was taken. That is also so after the peer's goodbye, before the stream itself ends.
  bool stream_ended() const noexcept {
    return reader_.ended().has_value() || (goodbye_.load(std::memory_order_relaxed) && reader_.drained());
  }
  bool stream_drained() const noexcept { return reader_.drained(); }
  void acknowledge(bool now);
  bool hung_up(int wait_ms = 0) const noexcept { return net::hung_up(*stream_, wait_ms); }
  /// Throws the error for the end of the stream. `in_body`: a body beside it isn't complete.
  [[noreturn]] void throw_end(bool in_body);

  const std::string& where() const noexcept { return where_; }
  const StreamNames& names() const noexcept { return names_; }
  const std::shared_ptr<BodyMemory>& pool() const noexcept { return pool_; }
  /// Tells the peer that this end closes: everything was sent, or, without a goodbye, not. Only the first call does
  /// something; the destructor makes one.
  void finish(bool goodbye) noexcept;
  /// For a destructor: takes the link out of the connection instead of finish(), which has no effect any more. Returns
  /// nothing if the connection has ended, or has frames that aren't sent yet.
  std::optional<Link> take_link() noexcept;
  const ForkGuard& fork_guard() const noexcept { return fork_; }

 private:
  bool send_message(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  void after_sending();
  void set_interest(bool output);

  bool news() const noexcept;
  void taken(std::uint64_t messages) override;
  void window(std::uint64_t messages) override;
  void goodbye() override;

  const ForkGuard fork_;
  const Agreement agreement_;
  const std::uint64_t send_limit_;
  const std::uint64_t body_limit_;
  const std::string where_;
  const StreamNames names_;
  const std::shared_ptr<BodyMemory> pool_ = make_body_pool_for(agreement_.role);
  std::shared_ptr<SocketStream> stream_;
  const int socket_;  // of the stream
  UniqueFd poll_;     // an epoll instance that contains the socket
  FrameWriter writer_;
  FrameReader reader_;

  std::atomic<bool> finished_{false};
  bool corked_ = false;  // of the sending half
  SendWindow window_;
  std::atomic<bool> goodbye_{false};
  std::atomic<bool> gone_{false};  // the peer has disconnected, and nothing can be sent any more

  std::mutex interest_mutex_;
  bool asleep_ = false;
  std::uint32_t watched_;  // events

  // Of the receiving half:
  Acknowledgements acknowledgements_;
  mutable bool window_told_ = false;  // readable() has returned true because the window has opened
  std::optional<std::pair<ErrorCode, std::string>> failure_;
};

}  // namespace crossdock::transport::net
