#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "device/region.h"
#include "dissociated/wire.h"
#include "session/published_table.h"
#include "session/way.h"

namespace crossdock::session {

/// A message that is ready to be sent. Its spans are valid until pop().
struct Outgoing {
  ByteSpan metadata;
  bool has_body = false;
  std::span<const dissociated::RemoteBuffer> buffers;  ///< Local addresses: region index in this stream, and offset.
  std::uint32_t slot = 0;                              ///< Passed to returned() once for each buffer that isn't empty.
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
  /// The body is sent by value: `parts` one after the other, kept alive by `keep` until they are sent. Then `buffers`
  /// and `slot` have no meaning.
  bool by_value = false;
  std::span<const ByteSpan> parts{};
  device::Device device{};  ///< Where `parts` are. On a device they have no padding between them.
  std::shared_ptr<const void> keep{};
};

/// Appends `buffer` to a packed body, with the padding that aligns the next buffer to 64 bytes, as the metadata says. A
/// buffer that lies right behind the part before extends that part: UCX sends one part from where it lies, and copies
/// several piece by piece.
void pack(ByteSpan buffer, std::vector<ByteSpan>* parts);

/// The messages for one consumer. Used by the server's I/O thread, which never waits for it.
class ServerStream {
 public:
  explicit ServerStream(const WayAnswer& way) noexcept : way_(way) {}
  virtual ~ServerStream() = default;
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;
  /// How its bodies go, except those that Outgoing::by_value says go as messages. Final once peek() has returned
  /// a message with a body.
  const WayAnswer& way() const noexcept { return way_; }

  enum class State : std::uint8_t {
    kReady,    ///< *out is filled; it stays the same message until pop().
    kLater,    ///< There is no message now; the server is woken when there is one.
    kStarved,  ///< There is no message until the consumer frees memory.
    kEnd,
  };
  /// Throws the error that ends the stream (an error of the source, FileChangedError, ...).
  virtual State peek(Outgoing* out) = 0;
  virtual void pop() = 0;
  virtual const std::shared_ptr<const device::Region>& region(std::uint32_t index) const = 0;
  /// The leases of `n` buffers of a message were freed.
  virtual void returned(std::uint32_t slot, std::uint32_t n) noexcept = 0;
  /// The consumer has ended, and held memory: it may have passed it on, so it must not be used again.
  virtual void lost() noexcept {}
  /// Tells the stream that no more messages will be requested, whether it has ended or not; leases may still be
  /// outstanding.
  virtual void over() noexcept {}
  /// Tells the stream that the consumer is at its lease limit: the batch for which it waits shall be sent by value.
  virtual void pass_by_value() noexcept {}
  /// After kLater: the longest time until peek() must be called again; 0: not before the server is woken.
  virtual int look_again_ms() const noexcept { return 0; }
  /// Whether what peek() throws ends a stream under way; false: it refuses the request, and nothing was sent.
  virtual bool has_begun() const noexcept { return true; }
  /// Whether take_dropped() has indices to return.
  virtual bool has_dropped() const noexcept { return false; }
  /// Appends the indices of regions that were dropped. From the next message that peek() returns, these indices name no
  /// region, or a different one.
  virtual void take_dropped(std::vector<std::uint32_t>*) {}

 protected:
  void set_way(const WayAnswer& way) noexcept { way_ = way; }

 private:
  WayAnswer way_;
};

/// Sends a published table to one consumer, at this consumer's speed.
class TableStream final : public ServerStream {
 public:
  /// `messages`: those that are sent, by their indices in ascending order, the schema's first. Absent: all.
  TableStream(std::shared_ptr<const PublishedTable> table, const WayAnswer& way,
              std::optional<std::vector<std::uint32_t>> messages = {});

  State peek(Outgoing* out) override;
  void pop() override;
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return table_->regions[index];
  }
  void returned(std::uint32_t message, std::uint32_t n) noexcept override;
  void lost() noexcept override;
  void over() noexcept override;
  bool has_dropped() const noexcept override { return !dropped_.empty(); }
  void take_dropped(std::vector<std::uint32_t>* regions) override;

 private:
  /// Calls `act` with the index of the region of each buffer of a message that isn't empty.
  template <typename Act>
  void for_each_region(std::size_t message, Act act) const;
  void pack_body(const PublishedMessage& message);
  std::size_t size() const noexcept { return messages_ ? messages_->size() : table_->messages.size(); }
  std::size_t current() const noexcept { return messages_ ? (*messages_)[next_] : next_; }
  void check_device(device::Context& context);

  std::shared_ptr<const PublishedTable> table_;
  std::shared_ptr<const void> reading_;  // shared by bodies that are being sent from the table's memory
  const device::Region* file_ = nullptr;
  const std::vector<std::shared_ptr<const device::Region>>* readable_;  // for sending by value, else null
  const std::optional<std::vector<std::uint32_t>> messages_;
  std::size_t next_ = 0;  // counts what is sent
  std::vector<ByteSpan> parts_;
  device::Device device_;               // that these are on
  std::optional<device::Queue> queue_;  // of check_device(); nothing else is on it
  // A client that has read the stream keeps only the regions of which it holds batches. So each region is dropped when
  // the stream is over and no batch of it is held. Empty for tables of one region, which goes with the stream.
  std::vector<std::uint32_t> leases_;         // buffers that the consumer holds, by message
  std::vector<std::uint64_t> region_leases_;  // buffers of messages that the consumer holds, by region
  std::vector<std::uint32_t> dropped_;        // has capacity for all regions
  bool over_ = false;
};

}  // namespace crossdock::session
