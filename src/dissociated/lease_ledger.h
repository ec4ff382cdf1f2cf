#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dissociated/wire.h"

namespace crossdock::dissociated {

/// How many leases of an address a single free ends, if the address was sent several times.
enum class FreeRule : std::uint8_t {
  /// For our own clients, known by the handshake. A free ends one lease, the oldest. An address is free when it was
  /// freed as often as it was sent.
  kCounted,
  /// For all other clients. The specification doesn't say whether clients must count, so both kinds of client must
  /// work:
  /// - While the stream is under way, a free ends one lease, so that memory is never reused early.
  /// - Once the stream has ended, nothing more is sent, so no memory is reused. A free then ends all leases that the
  ///   address has from ended streams. So a client that frees each distinct address once, after the last body, releases
  ///   everything.
  /// - A client that does count sends its remaining frees later. This number of frees is recorded as owed, and these
  ///   frees are ignored: they are no error. Owed frees are ignored before any lease of a stream that is still under
  ///   way is ended.
  kAsSpecified,
};

/// Leases that have ended, of one holder.
struct Freed {
  std::uint64_t holder = 0;
  std::uint32_t leases = 0;
};

/// Counts the addresses that a consumer holds. There is one ledger per connection, so that no connection can free the
/// leases of another. Pure. Use it from one thread at a time. Lending allocates only when the number of distinct
/// addresses grows, or the number of bodies, or of leases of one address that differ in holder or length. The cost of
/// lending and freeing doesn't depend on the number of leases. It is least for a client that frees bodies whole, in
/// the order in which they were lent.
class LeaseLedger {
 public:
  explicit LeaseLedger(FreeRule rule = FreeRule::kCounted);
  ~LeaseLedger();

  /// Records that a body with these buffers was sent; pairs with address 0 are skipped. Returns the number of the
  /// others. free() returns `holder` for each pair that is freed. Holders are numbers that the caller chooses (a slot
  /// of a pool, a published table). `now_ms` is the caller's clock, for oldest_ms().
  std::size_t lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms = 0);

  /// Ends the leases of addresses that the client frees. Appends the pairs that were freed to `*freed`, and counts
  /// consecutive ones of one holder together. Leases of one address are freed in the order in which they were lent.
  /// Address 0 is ignored.
  ///
  /// Stops after about `steps` steps: each address costs one step, and so does each lease where a single free ends
  /// several; a body that is freed whole may be finished beyond that. `steps` is at least 2. Returns how many of the
  /// addresses are finished: the next call must begin with the first one that isn't.
  ///
  /// Throws ProtocolError for an address that isn't lent; the addresses before it in the span have been freed.
  std::size_t free(std::span<const std::uint64_t> addresses, std::vector<Freed>* freed,
                   std::size_t steps = std::numeric_limits<std::size_t>::max());

  /// Tells the ledger that the stream's last body was sent: its leases now belong to an ended stream. See
  /// FreeRule::kAsSpecified.
  void stream_ended() noexcept;

  std::size_t outstanding() const noexcept;          ///< Pairs lent and not freed.
  std::uint64_t outstanding_bytes() const noexcept;  ///< Sum of their lengths.
  /// Approximate bytes of the ledger itself. Leases of the same address, holder and length don't add to it.
  std::uint64_t memory() const noexcept;
  /// Returns when the oldest outstanding lease was lent, by the clock of lend(); nullopt if there is none. It may be
  /// the time of an earlier lease, which was freed, of the same address and holder. Looks at every address: for
  /// statistics.
  std::optional<std::int64_t> oldest_ms() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
