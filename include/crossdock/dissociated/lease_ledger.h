#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/dissociated/wire.h"

namespace crossdock::dissociated {

/// What one free of an address ends, if the address was sent several times.
enum class FreeRule : std::uint8_t {
  /// Our own clients, known by the handshake: one lease, always the oldest. An address is free when it was freed as
  /// often as it was sent.
  kCounted,
  /// Anybody else. The text doesn't say whether to count, so both kinds of client must do:
  ///  - while the stream is under way a free ends one lease, so that memory is never reused early;
  ///  - once the stream has ended (nothing is sent any more, so nothing is reused) one free ends all leases that the
  ///    address has from ended streams: a client that frees each distinct address once, after the last body, gives
  ///    everything back;
  ///  - a client that counts after all sends the rest of its frees then: as many are owed and swallowed, they are no
  ///    error. Owed ones are swallowed before they touch a lease of a stream that is still under way.
  kAsSpecified,
};

/// Which addresses a consumer holds, counted. One ledger per connection, so that nobody can free another's. Pure; one
/// thread at a time. Lending and freeing allocate only when the number of distinct addresses grows, and cost the same
/// however much is out.
class CROSSDOCK_EXPORT LeaseLedger {
 public:
  explicit LeaseLedger(FreeRule rule = FreeRule::kCounted);
  ~LeaseLedger();
  LeaseLedger(LeaseLedger&&) noexcept;
  LeaseLedger& operator=(LeaseLedger&&) noexcept;

  /// A body with these buffers was sent; pairs with address 0 are skipped. `holder` comes back from free() once per
  /// pair when it is freed. Holders are the caller's numbers (a slot of a pool, a published table).
  /// `now_ms`: the caller's clock, for oldest_ms().
  void lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms = 0);

  /// The client frees these. Appends to `*freed` the holder of each pair that was freed. Leases of one address are
  /// freed in the order in which they were lent. Address 0 is ignored.
  ///
  /// Stops after about `steps` steps: looking at an address is one, and ending a lease is one where a single free ends
  /// several. Returns how many of the addresses are done with: the next call must begin with the first of the rest.
  ///
  /// Throws ProtocolError for an address that isn't lent; what stood before it in the span has been freed.
  std::size_t free(std::span<const std::uint64_t> addresses, std::vector<std::uint64_t>* freed,
                   std::size_t steps = std::numeric_limits<std::size_t>::max());

  /// The stream's last body was sent: its leases are those of an ended stream from now on. See FreeRule::kAsSpecified.
  void stream_ended() noexcept;

  /// Frees all leases, for a consumer that is gone. Appends every outstanding pair's holder.
  void free_all(std::vector<std::uint64_t>* freed);

  std::size_t outstanding() const noexcept;          ///< Pairs lent and not freed.
  std::uint64_t outstanding_bytes() const noexcept;  ///< Sum of their lengths.
  std::uint64_t memory() const noexcept;             ///< Bytes that it takes, about, whatever is out.
  /// When the lease that has been out longest was lent, by lend()'s clock; nothing where none is out. Leases of one
  /// address and holder that follow each other count from the first of them. Looks at every address: for statistics.
  std::optional<std::int64_t> oldest_ms() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
