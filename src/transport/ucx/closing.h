#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "crossdock/core/error.h"
#include "offered_memory.h"
#include "transport/internal/closing_ends.h"

namespace crossdock::transport::ucx {

/// Whether an error of receiving says that the peer is gone or broke the rules. Any other is of this end alone: the
/// peer may be sending still.
bool is_of_peer(ErrorCode code) noexcept;

/// The worker and the endpoint of a connection that this process has closed. To close an endpoint by force loses
/// messages, and UCX's own orderly close can't be cut short. What arrives is dropped.
class UcxClosingEnd final : public ClosingEnd {
 public:
  /// What ends it, besides the peer's goodbye, its death, and kLongest.
  enum class Until : std::uint8_t {
    kSent,      ///< The network has every message, and none of the peer's has arrived in part.
    kTaken,     ///< The peer has acknowledged every message.
    kFlushed,   ///< The peer's UCX has every message: for a peer that knows no control messages.
    kLeft,      ///< Nothing else: the peer may still read or write memory of this end. It is told that this end closes.
    kPeerGone,  ///< Nothing else: the peer is to close the connection.
  };

  /// The peer may read `offered` until the end. `sent` messages were sent, and the peer has taken `taken` of
  /// them. Sends a goodbye, unless `until` is kPeerGone or kFlushed. `peer_left`: the peer has said goodbye. It is
  /// answered once nothing of this end's is on its way: until then the peer stays, to receive it.
  UcxClosingEnd(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint, Until until,
                std::shared_ptr<const OfferedMemory> offered = nullptr, std::uint64_t sent = 0, std::uint64_t taken = 0,
                bool peer_left = false);

  bool arm() override { return worker_->arm(takes_no_more_ || !may_take()); }
  int descriptor() const noexcept override { return worker_->descriptor(); }

 private:
  bool step() override;
  bool may_take() const noexcept { return offered_ == nullptr || offered_->has_room(); }
  std::optional<Received> take();
  bool flushed();

  std::shared_ptr<const OfferedMemory> offered_;  // may be null
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<Endpoint> endpoint_;  // destroyed first
  Until until_;
  std::uint64_t sent_;
  std::uint64_t taken_;
  bool goodbye_sent_;
  bool peer_left_;
  bool flushing_ = false;
  bool takes_no_more_ = false;  // after an error of this end's own, the worker drops what arrives
};

}  // namespace crossdock::transport::ucx
