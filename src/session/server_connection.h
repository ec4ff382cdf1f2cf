#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "crossdock/session/server.h"
#include "dissociated/request.h"
#include "dissociated/sender.h"
#include "session/consumer.h"
#include "session/region_numbers.h"
#include "session/server_stream.h"
#include "session/turn_budget.h"
#include "transport/transport.h"

namespace crossdock::session {

/// The server's end of one connection: connects the protocol's Sender with a transport's Connection and with the stream
/// that the client requested. I/O thread only; no function blocks.
class ServerConnection {
 public:
  /// Opens the stream that is requested. Throws the error that the consumer receives.
  using Open = std::function<std::unique_ptr<ServerStream>(const dissociated::Request&, const transport::Connection&,
                                                           const std::shared_ptr<const CountedStream>&)>;

  ServerConnection(std::unique_ptr<transport::Connection> connection, const ServerOptions& options,
                   std::shared_ptr<Consumer> consumer, Open open);

  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  /// Takes one turn, within the budget: processes received messages, and sends as much as allowed. Returns true if
  /// there was any progress. Throws the error that ends this connection.
  bool turn(std::int64_t now_ms, TurnBudget& budget);
  /// Whether the stream under way had nothing to send in the last turn. It continues when the connection's waker is
  /// notified.
  bool waits_for_source() const noexcept { return waits_for_source_; }
  /// The time at which the connection needs a turn even if no event occurs; 0: never.
  std::int64_t deadline_ms() const noexcept { return deadline_ms_; }
  /// Whether nothing of a stream is under way any more: the consumer has taken all that was sent, and where it reads
  /// bodies from this process, it has freed them. After false, the connection gets a turn when that may have changed.
  bool finished();
  /// Sends the reason to a consumer whose stream is still under way. Best effort: calls flush() up to `pushes` times
  /// for data that is still to be sent. Logs nothing: the caller has already logged the reason if necessary.
  void close(const std::exception& reason, int pushes = 1) noexcept;

  transport::Connection& connection() noexcept { return *connection_; }
  ConsumerStats stats(std::int64_t now_ms);
  /// Adds what its streams have counted so far.
  void add_totals(StreamTotals* totals) const;

 private:
  struct Stream {
    std::uint32_t id;
    std::shared_ptr<const CountedStream> counted;
    std::unique_ptr<ServerStream> source;
    std::vector<std::int32_t> numbers{};  // by local region index; kNoNumber: none yet
    std::uint64_t outstanding = 0;        // buffers leased
  };
  /// A region of this connection.
  struct Number {
    std::uint32_t streams = 0;                 // number of streams that use it
    std::optional<std::uint64_t> announced{};  // the address of its first byte, once it was announced
  };
  static constexpr std::int32_t kNoNumber = -1;

  bool take_messages(TurnBudget& budget);
  void take(const transport::Incoming& message);
  void start(ByteSpan request);
  void note_way(const WayAnswer& way);
  void pass_end_of_bodies();
  void apply_frees();
  void take_last_frees() noexcept;
  bool pump(std::int64_t now_ms, TurnBudget& budget);
  std::uint64_t cost_of_current() const noexcept;
  void count_pushed(TurnBudget& budget) noexcept;
  bool send_current();
  bool send_metadata();
  bool send_by_value();
  bool send_remote();
  bool write_addresses();
  std::optional<std::uint64_t> announced(std::uint32_t index);
  std::int32_t number_of(const std::shared_ptr<const device::Region>& region);
  void time_batch() noexcept;
  void time_batches(std::int64_t now) noexcept;
  void end_stream(std::vector<std::byte> tail);
  void fail_stream(const std::exception& reason);
  void stop_stream(const std::exception& reason);
  void log_end(LogLevel level, const std::exception& reason) const;
  void cancel_stream();
  void check_size() const;
  void watch_starvation(std::int64_t now_ms);
  void check_leases() const;
  void forget(const Stream& stream);
  void release_number(std::int32_t number);
  void drop_regions(Stream* stream);
  bool push_tail();
  bool push_retired(TurnBudget& budget);

  std::unique_ptr<transport::Connection> connection_;
  const ChannelRole role_;
  const ServerOptions& options_;
  const std::shared_ptr<Consumer> consumer_;
  Open open_;
  std::shared_ptr<dissociated::Sender> sender_;
  RegionNumbers regions_;
  std::vector<Number> numbers_;                        // by number
  std::unordered_map<std::uint32_t, Stream> streams_;  // by id: the one under way, and those with outstanding leases
  Stream* under_way_ = nullptr;
  std::uint32_t next_stream_id_ = 1;

  Outgoing current_;
  bool has_current_ = false;
  bool metadata_sent_ = false;
  dissociated::PrefixBytes prefix_{};
  std::vector<dissociated::RemoteBuffer> body_;  // of addresses, as it is sent: its head, and the buffers
  std::vector<std::byte> tail_;                  // the End of Stream or error message that is still to be sent
  std::vector<std::uint16_t> retired_;
  std::vector<dissociated::Freed> freed_;
  std::vector<std::uint32_t> dropped_;
  std::int64_t starved_since_ms_ = 0;
  std::int64_t deadline_ms_ = 0;
  std::int64_t now_ms_ = 0;   // time of the current turn
  std::uint64_t pushed_ = 0;  // how much of the connection's pushed() was already counted
  bool waits_for_source_ = false;
  ConsumerStats stats_;
  std::uint64_t n_streams_ = 0;
  std::int64_t asked_ns_ = 0;       // when the stream under way was asked for; 0: its first batch was sent
  std::int64_t last_batch_ns_ = 0;  // when its last batches were sent that are counted in batch_times_
  std::uint64_t untimed_ = 0;       // batches sent since
  DurationHistogram first_batch_times_;
  DurationHistogram batch_times_;
};

}  // namespace crossdock::session
