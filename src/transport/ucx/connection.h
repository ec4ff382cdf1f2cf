#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "closing.h"
#include "control.h"
#include "core/fork.h"
#include "crossdock/core/error.h"
#include "endpoint.h"
#include "offered_memory.h"
#include "probe_timer.h"
#include "remote_key.h"
#include "transport/internal/handshake.h"
#include "transport/internal/refusals.h"
#include "transport/net/announced_regions.h"
#include "transport/net/window.h"
#include "transport/transport.h"

namespace crossdock::transport::ucx {

/// Memory that goes by address to or from a peer strictly as specified.
struct SpecifiedMemory {
  std::vector<std::byte> key{};                  ///< At a client: of the server's memory; empty: none is read.
  std::weak_ptr<const device::Region> region{};  ///< At a server: the one that the client's URI has the key of.
};

/// Either end after the handshake.
///
/// The receiving half alone learns which messages the peer has taken. Both halves make progress, the sending half with
/// flush(), in_flight(), and every call that finds no room.
///
/// With a peer strictly as specified, no control message is sent or accepted. In flight is then what this end's UCX
/// hasn't sent.
class UcxConnection final : public Connection {
 public:
  /// A server's end goes to `closing` when it is destroyed; a client's has none, and its destructor waits until the
  /// network has its messages.
  UcxConnection(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint, const Introduction& introduction,
                const UcxOptions& options, std::shared_ptr<ClosingEnds> closing, SpecifiedMemory memory = {});
  ~UcxConnection() override;
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  const Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan head, ByteSpan tail) override;
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override;
  std::uint64_t max_message() const noexcept override { return send_limit_; }
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  std::uint64_t max_body() const noexcept override { return body_limit_; }
  bool reaches(const device::Device& device) const noexcept override;
  bool send_device_body(std::uint64_t tag, std::span<const ByteSpan> parts, const device::Device& device,
                        std::shared_ptr<const void> keep) override;
  std::size_t in_flight() override;
  bool below_window(std::size_t window) override;
  /// UCX reads a body's memory in this process: not that of a file, which may shrink meanwhile (SIGBUS). Memory of a
  /// device that it reaches goes as messages.
  Ways ways_of(const device::Region& region) const override;
  std::optional<std::uint64_t> announce(std::uint16_t number,
                                        const std::shared_ptr<const device::Region>& region) override;
  bool retire(std::uint16_t number) override;
  bool flush() override;
  std::uint64_t pushed() const noexcept override { return pushed_.load(std::memory_order_relaxed); }

  std::optional<Incoming> receive() override;
  void acknowledge_all() override;
  void receive_into(std::shared_ptr<BodyMemory> memory) override { worker_->receive_into(std::move(memory)); }

  /// The peer announces a region before the first message that names it, and UCX keeps this order: there is nothing to
  /// wait for.
  std::shared_ptr<const PeerRegion> peer_region(std::uint64_t address, int timeout_ms,
                                                const InterruptHook& interrupted) override;
  std::unique_ptr<Reading> read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep) override;

  void wait_for_reads_only(bool on) noexcept override { reads_only_ = on; }

  bool readable() const override;
  bool in_bulk() const override;
  bool prepare_sleep() override;
  void wake() override;
  int descriptor() const noexcept override { return probes_ ? probes_->descriptor() : worker_->descriptor(); }

 private:
  std::unique_ptr<Reading> read_as_specified(std::span<const ReadPart> parts, const std::shared_ptr<const void>& keep);
  template <typename Begin>
  auto begin_or_progress(Begin begin);
  template <typename Send>
  bool send_counted(std::uint64_t size, Send send);
  template <typename Send>
  bool send_body_counted(std::uint64_t size, Send send);
  template <typename Send>
  bool send_message(ByteSpan head, ByteSpan tail, Send send);
  std::string why_gone(bool said_goodbye) const;
  [[noreturn]] void throw_gone();

  std::optional<Incoming> take();
  std::size_t on_control(ByteSpan message);
  void check_regions_agreed() const;
  std::size_t answer(ByteSpan request);
  void acknowledge();
  void tell_taken();
  bool has_ended() const noexcept;
  [[noreturn]] void throw_end();
  bool window_opened() const noexcept;
  template <typename News>
  void wake_if(News news);
  bool has_room_again() const;
  bool room_came() const;
  bool takes_messages() const noexcept;
  bool news() const;

  const ForkGuard fork_;
  const Agreement agreement_;
  const std::uint64_t send_limit_;
  const std::uint64_t body_limit_;
  const bool in_pieces_;  // the peer knows bodies in pieces, and this end's UCX can send their headers
  const std::string where_;
  const std::shared_ptr<ClosingEnds> closing_;
  const SpecifiedMemory specified_;
  const std::shared_ptr<OfferedMemory> offered_ = std::make_shared<OfferedMemory>();
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<Endpoint> endpoint_;

  std::atomic<std::uint64_t> sent_{0};  // messages, in total
  std::atomic<std::uint64_t> pushed_{0};
  net::SendWindow window_;
  // With a peer strictly as specified: the window that below_window() waits for; 0: none.
  std::atomic<std::size_t> specified_window_{0};
  std::atomic<bool> idle_{true};  // nothing was sent since acknowledge_all(): the peer has nothing to send either
  Refusals refusals_;
  std::atomic<std::uint64_t> refused_bytes_{0};  // of the message that found no room last
  std::atomic<std::uint64_t> refused_until_{0};  // the message that the peer must have taken before there is room
  std::atomic<bool> goodbye_{false};
  std::atomic<bool> gone_{false};  // the peer has disconnected, and nothing can be sent any more

  // Of the sending half:
  std::uint64_t told_window_ = 0;
  PiecesAhead pieces_ahead_;

  // Of the receiving half:
  std::optional<ProbeTimer> probes_;  // of a client
  const int keepalive_s_;
  std::unique_ptr<const RemoteKey> key_;  // of `specified_`, once a read has needed it
  net::AnnouncedRegions regions_;         // the peer's
  bool reads_only_ = false;               // messages don't count as something to receive
  net::Acknowledgements acknowledgements_;
  std::uint64_t last_ = 0;            // messages that come before the peer's goodbye
  std::shared_ptr<const void> kept_;  // the memory of the last message
  mutable bool window_told_ = false;  // readable() has returned true because the window has opened
  std::optional<std::pair<ErrorCode, std::string>> failure_;
};

}  // namespace crossdock::transport::ucx
