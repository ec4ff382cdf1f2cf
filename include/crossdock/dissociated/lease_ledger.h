#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/dissociated/wire.h"

namespace crossdock::dissociated {

/// Which addresses a consumer holds, counted: an address sent twice is free when it was freed twice. One ledger per
/// connection, so that nobody can free another's. Pure; one thread at a time.
class CROSSDOCK_EXPORT LeaseLedger {
 public:
  LeaseLedger();
  ~LeaseLedger();
  LeaseLedger(LeaseLedger&&) noexcept;
  LeaseLedger& operator=(LeaseLedger&&) noexcept;

  /// A body with these buffers was sent; (0, 0) pairs are skipped. `holder` comes back from free() once per pair when it is freed. Holders are the
  /// caller's numbers (a slot of a pool, a published table).
  void lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder);

  /// The client frees these. Appends to `*freed` the holder of each pair that came home. Address 0 is ignored. Throws ProtocolError for an
  /// address that isn't lent; what stood before it in the span has been freed.
  void free(std::span<const std::uint64_t> addresses, std::vector<std::uint64_t>* freed);

  /// "A client that frees each distinct address once, after the last body, must be enough": from now on (the stream's last body was sent) one free of an address
  /// ends all its leases of that stream. See docs/protocol.md for how this goes with counting between our own ends.
  void stream_ended();

  /// The consumer is gone: everything comes home. Appends every outstanding pair's holder.
  void free_all(std::vector<std::uint64_t>* freed);

  std::size_t outstanding() const noexcept;        ///< Pairs lent and not freed.
  std::uint64_t outstanding_bytes() const noexcept;  ///< Sum of their lengths.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
