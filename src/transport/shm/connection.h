#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "barrier.h"
#include "control_socket.h"
#include "core/fork.h"
#include "crossdock/core/error.h"
#include "packets.h"
#include "peer_regions.h"
#include "ring.h"
#include "ring_memory.h"
#include "socket.h"
#include "transport/internal/handshake.h"
#include "transport/shm.h"
#include "transport/transport.h"

namespace crossdock::transport::shm {

/// Memory that the peer has made this process map and that isn't unmapped yet. Shared with the regions, which may
/// outlive the connection.
struct RegionBudget {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint32_t> count{0};
};

/// Either end after the handshake.
///
/// The sending half uses `writer_`, `corked_` and `sends_`. The receiving half uses `reader_`, the regions, the sleep
/// epoch, and the data read from the socket. Both halves may write packets to the socket, and share the atomics.
class ShmConnection final : public Connection, private RingOwner {
 public:
  /// `own` and `peer` are the rings of both ends. `user` is the peer's. `device` is the client's.
  ShmConnection(std::shared_ptr<ControlSocket> socket, RingMemory own, RingMemory peer, const Credentials& user,
                const Introduction& introduction, const std::optional<DeviceName>& device, const ShmOptions& options);
  ~ShmConnection() override;
  ShmConnection(const ShmConnection&) = delete;
  ShmConnection& operator=(const ShmConnection&) = delete;

  const Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan head, ByteSpan tail) override { return send_message(0, 0, head, tail); }
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override {
    return send_message(kTagged, tag, head, tail);
  }
  void cork() noexcept override { corked_ = true; }
  std::uint64_t max_message() const noexcept override { return send_limit_; }
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) override;
  std::uint64_t max_body() const noexcept override { return body_limit_; }
  std::size_t in_flight() override;
  bool below_window(std::size_t window) override;
  Ways ways_of(const device::Region& region) const override;
  std::optional<std::uint64_t> announce(std::uint16_t number,
                                        const std::shared_ptr<const device::Region>& region) override;
  bool retire(std::uint16_t number) override;
  bool flush() override;
  std::uint64_t pushed() const noexcept override { return writer_.written(); }

  std::optional<Incoming> receive() override;
  void receive_into(std::shared_ptr<BodyMemory> memory) override { reader_.receive_into(memory ? memory : pool_); }
  bool knows_region(std::uint64_t address) override;
  void release_regions() noexcept override {
    if (retires_at_rest_) regions_.make_weak();
  }
  void keep_regions() noexcept override {
    if (retires_at_rest_) regions_.make_strong();
  }
  std::shared_ptr<const PeerRegion> peer_region(std::uint64_t address, int timeout_ms,
                                                const InterruptHook& interrupted) override;

  bool readable() const override;
  bool prepare_sleep() override;
  void wake() override;
  int descriptor() const noexcept override { return socket_->get(); }

 private:
  void look_at_life(bool sent);
  bool send_message(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  [[noreturn]] void fail_too_long(std::size_t head, std::size_t tail) const;
  bool send_control(ByteSpan packet, int fd);
  void check_peer_lives(bool at_once);
  void ring() noexcept override;
  void retired(std::uint64_t number) override;

  std::optional<Incoming> take();
  void push_pending();
  void leave_sleep() noexcept;
  void service();
  void handle(Packet& packet);
  void adopt_region(Packet& packet);
  void adopt_device_region(Packet& packet);
  void check_budget(std::uint64_t size, const std::string& name) const;
  void add_region(std::uint16_t number, std::shared_ptr<const device::Region> memory);
  std::shared_ptr<const device::Region> on_budget(std::shared_ptr<const device::Region> region) const;
  void check_early() const;
  [[noreturn]] void throw_end() const;
  template <typename F>
  auto remember_failure(F receive) -> decltype(receive());

  const ForkGuard fork_;
  const std::shared_ptr<ControlSocket> socket_;
  RingMemory own_;
  RingMemory peer_;
  const Agreement agreement_;
  const Barrier barrier_;
  const std::uint64_t send_limit_;
  const std::uint64_t body_limit_;
  const std::uint64_t max_region_bytes_;
  const std::uint32_t max_regions_;
  const bool accept_files_;
  const bool retires_at_rest_;
  const device::Region::Descriptor keeps_;  // of regions
  const std::string where_;
  const std::shared_ptr<device::Context> device_;  // on which a client opens regions
  const std::shared_ptr<BodyMemory> pool_ = make_body_pool_for(agreement_.role);
  RingWriter writer_;
  RingReader reader_;

  std::atomic<bool> gone_{false};              // the peer's end of the socket is closed
  std::atomic<bool> socket_full_{false};       // there was no room for a control packet
  std::atomic<bool> socket_room_hint_{false};  // the peer has rung since then

  bool corked_ = false;  // of the sending half
  std::uint32_t sends_ = 0;
  std::uint64_t last_life_check_ = 0;  // ticks

  std::uint32_t receives_ = 0;
  std::uint64_t last_service_ = 0;                            // ticks
  std::uint32_t sleep_epoch_ = 0;                             // odd while asleep
  bool service_due_ = false;                                  // poll() has reported that the socket is readable
  std::optional<std::pair<ErrorCode, std::string>> failure_;  // the error that ended the receiving half
  PeerRegions regions_;
  /// Announced under a number that is still in use at this end: the ring must already contain its retirement, before
  /// `position`.
  struct Early {
    std::uint16_t number;
    std::uint64_t position;
    std::shared_ptr<const PeerRegion> region;
  };
  std::deque<Early> early_;
  std::shared_ptr<RegionBudget> budget_ = std::make_shared<RegionBudget>();
};

}  // namespace crossdock::transport::shm
