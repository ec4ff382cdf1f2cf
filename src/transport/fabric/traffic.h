#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "arriving_body.h"
#include "endpoint.h"
#include "outgoing_body.h"
#include "reads.h"

namespace crossdock::transport::fabric {

/// What goes through the endpoint of one connection: bodies in both directions, and reads. Thread-safe: either half of
/// the connection makes progress for both.
class Traffic {
 public:
  static constexpr std::size_t kMaxOutgoing = 4;  ///< Bodies under way at once.

  explicit Traffic(EndpointPtr endpoint) noexcept
      : descriptor_(endpoint->descriptor()), endpoint_(std::move(endpoint)) {}
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// Readable when there is progress to make, after may_sleep() has returned true.
  int descriptor() const noexcept { return descriptor_; }

  /// Begins to send. There must be room, see has_room().
  void send(std::shared_ptr<OutgoingBody> body);
  bool has_room() const noexcept { return outgoing() < kMaxOutgoing; }
  /// The number of bodies that the peer hasn't received yet.
  std::size_t outgoing() const noexcept { return n_outgoing_.load(std::memory_order_acquire); }
  /// The bytes of all bodies that the peer has received.
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_.load(std::memory_order_relaxed); }

  /// Begin to receive, and to read. Ownership is shared until they have ended.
  void receive(std::shared_ptr<ArrivingBody> body);
  void read(std::shared_ptr<ReadGroup> reads);
  bool is_complete(const ArrivingBody& body) const;
  bool is_complete(const ReadGroup& reads) const;

  /// Makes progress with everything: a bounded amount.
  void progress();
  /// Returns whether there is nothing to do until descriptor() is readable.
  bool may_sleep();
  /// Counts the operations that have ended.
  std::uint64_t ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// Whether the endpoint has failed: then nothing more ends.
  bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// What has failed, if an operation has; else see broken_why().
  std::optional<Failure> failure() const;
  std::string broken_why() const;  ///< Empty if there was no memory for it.

  /// Closes the endpoint, see Endpoint. Later calls do nothing. The connection to the peer must be closed
  /// already. May take 0.2 s if the peer doesn't answer while something is being received.
  void close() noexcept;

 private:
  // Lists, which take no memory while they are empty: a deque needs some to be made or moved.
  using Finished = std::list<std::shared_ptr<OutgoingBody>>;

  std::size_t advance(Finished* finished);
  void post();
  void break_off(std::string_view why) noexcept;

  const int descriptor_;
  std::atomic<std::size_t> n_outgoing_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<bool> broken_{false};

  mutable std::mutex mutex_;  // guards the members below, and what is in them
  EndpointPtr endpoint_;
  std::list<std::shared_ptr<OutgoingBody>> outgoing_;
  // Not handed to the endpoint as a whole yet:
  std::list<OutgoingBody*> to_send_;
  std::list<std::shared_ptr<ArrivingBody>> to_receive_;
  std::list<std::shared_ptr<ReadGroup>> to_read_;
  std::string why_;
};

}  // namespace crossdock::transport::fabric
