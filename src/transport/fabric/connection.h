#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "core/unique_fd.h"
#include "traffic.h"
#include "transport/fabric.h"
#include "transport/internal/closing_ends.h"
#include "transport/internal/refusals.h"
#include "transport/net/stream_connection.h"

namespace crossdock::transport::fabric {

/// Either end after the handshake: a connection over a socket, the link, and an endpoint of libfabric beside it. Long
/// bodies and reads go through the endpoint, everything else over the link, which also tells of the peer's death.
///
/// What arrives is kept in the link's order: a body holds up the messages after it until all of it is there.
class FabricConnection final : public net::StreamConnection {
 public:
  /// A server's end goes to `closing` when it is destroyed and the peer may still need it. A client's has none, and its
  /// destructor waits until the server has every body, for ClosingEnd::kLongest at most. Regions pass from a server to
  /// a client only.
  FabricConnection(UniqueFd socket, EndpointPtr endpoint, const Introduction& introduction,
                   const FabricOptions& options, std::shared_ptr<ClosingEnds> closing);
  ~FabricConnection() override;
  FabricConnection(const FabricConnection&) = delete;
  FabricConnection& operator=(const FabricConnection&) = delete;

  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  bool flush() override;
  std::uint64_t pushed() const noexcept override { return StreamConnection::pushed() + traffic_->sent_bytes(); }
  /// The provider reads memory in this process: not that of a file, which may shrink meanwhile (SIGBUS). A region that
  /// may be read is registered here: where the system refuses that, it goes as a message.
  Ways ways_of(const device::Region& region) const override;
  bool prepare_reads(const device::Region& region) const override;
  std::optional<std::uint64_t> announce(std::uint16_t number,
                                        const std::shared_ptr<const device::Region>& region) override;
  bool retire(std::uint16_t number) override;

  void receive_into(std::shared_ptr<BodyMemory> memory) override;
  std::shared_ptr<const PeerRegion> peer_region(std::uint64_t address, int timeout_ms,
                                                const InterruptHook& interrupted) override;
  std::unique_ptr<Reading> read(std::span<const ReadPart> parts, std::shared_ptr<const void> keep) override;

  void wait_for_reads_only(bool on) noexcept override { reads_only_ = on; }

  bool readable() const override;
  bool in_bulk() const override;
  bool prepare_sleep() override;

 private:
  class FabricReading;
  /// What a Reading and its connection share. Of the receiving half.
  struct ReadState {
    FabricConnection* connection = nullptr;  // null once the reads have ended
    std::shared_ptr<ReadGroup> group{};      // null once they have ended
    std::uint64_t bytes = 0;
    std::exception_ptr failure{};
    std::shared_ptr<std::size_t> unseen{};  // counts it, once it has ended, until its Reading is asked
  };
  /// A message, copied out of the link's buffer.
  struct Message {
    bool tagged = false;
    std::uint64_t tag = 0;
    std::vector<std::byte> copy{};
    std::shared_ptr<const void> owner{};  // of the bytes of a body, in place of the copy
    ByteSpan bytes{};
  };
  struct Announced {
    std::uint16_t number;
    ReadableRegion region;
  };
  struct Retired {
    std::uint16_t number;
  };
  using Arrived = std::variant<std::shared_ptr<ArrivingBody>, Message, Announced, Retired>;

  // Of the receiving half:
  std::optional<Incoming> take() override;
  std::optional<Incoming> take_next();
  std::optional<Incoming> take_arrived();
  std::optional<Incoming> take_last();
  Incoming take_body(const ArrivingBody& body);
  bool read_link();
  void beside(net::FrameKind kind, std::uint64_t number, ByteSpan payload) override;
  void add_body(std::uint64_t tag, ByteSpan payload);
  void add_region(std::uint16_t number, ByteSpan payload);
  std::uint16_t check_region(std::uint64_t number) const;
  bool takes_input() const noexcept override { return takes_input_.load(std::memory_order_relaxed) && !reads_only_; }
  bool has_other_news() const noexcept override;
  bool front_is_ready() const;
  void update_takes_input() noexcept;
  const ReadableRegion* find(std::uint64_t address) const noexcept;
  void advance_reads();
  void collect_reads();
  void close_later() noexcept;
  void shut(const std::exception_ptr& why) noexcept;
  [[noreturn]] void throw_broken();

  bool serves() const noexcept { return closing_ != nullptr; }

  const std::uint64_t max_body_;
  const std::shared_ptr<ClosingEnds> closing_;
  const std::shared_ptr<const FabricDomain> domain_;
  std::unique_ptr<Traffic> traffic_;  // null only in the destructor
  Refusals bodies_refused_;

  // Of the sending half:
  std::uint64_t next_tag_;
  std::map<std::uint16_t, std::shared_ptr<const device::Region>> announced_;

  // Of the receiving half:
  std::shared_ptr<BodyMemory> body_memory_;
  std::deque<Arrived> arrived_;
  std::size_t bodies_ = 0;         // in arrived_
  std::uint64_t body_bytes_ = 0;   // of these
  std::size_t message_bytes_ = 0;  // of the messages in arrived_
  std::atomic<bool> takes_input_{true};
  Message current_;  // the message that receive() returned last
  std::map<std::uint16_t, ReadableRegion> regions_;
  std::vector<std::shared_ptr<ReadState>> reads_;
  std::uint64_t read_bytes_ = 0;  // of these
  // Reads that have ended and whose Reading doesn't know: they may end while another one is asked.
  const std::shared_ptr<std::size_t> unseen_reads_ = std::make_shared<std::size_t>(0);
  std::uint64_t seen_ended_ = 0;  // of Traffic::ended()
  bool frame_came_ = false;       // to beside()
  bool reads_only_ = false;       // messages don't count as something to receive
};

}  // namespace crossdock::transport::fabric
