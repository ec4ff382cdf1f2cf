#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "dissociated/lease_ledger.h"

namespace crossdock::simulation {

/// What LeaseLedger promises, written the slow and obvious way: every lease is an entry of its own.
class PlainLedger {
 public:
  explicit PlainLedger(dissociated::FreeRule rule) : counted_(rule == dissociated::FreeRule::kCounted) {}

  void lend(const dissociated::RemoteBuffer& buffer, std::uint64_t holder) {
    if (buffer.address != 0) leases_[buffer.address].push_back({holder, buffer.length, stream_});
  }
  /// False where the address isn't lent. The holders of the leases that ended are appended.
  bool free(std::uint64_t address, std::vector<std::uint64_t>* freed) {
    if (address == 0) return true;
    std::deque<Lease>& leases = leases_[address];
    std::size_t ended = 0;
    while (ended < leases.size() && leases[ended].stream < stream_) ++ended;
    if (counted_) {
      if (leases.empty()) return false;
      end(leases, 1, freed);
    } else if (ended != 0) {
      owed_[address] += ended - 1;
      end(leases, ended, freed);
    } else if (owed_[address] != 0) {
      --owed_[address];
    } else {
      if (leases.empty()) return false;
      end(leases, 1, freed);
    }
    return true;
  }
  void stream_ended() { ++stream_; }
  std::vector<std::uint64_t> free_all() {
    std::vector<std::uint64_t> freed;
    for (auto& [address, leases] : leases_) end(leases, leases.size(), &freed);
    owed_.clear();
    return freed;
  }

  std::size_t outstanding() const {
    std::size_t count = 0;
    for (const auto& [address, leases] : leases_) count += leases.size();
    return count;
  }
  std::uint64_t outstanding_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [address, leases] : leases_) {
      for (const Lease& lease : leases) bytes += lease.length;
    }
    return bytes;
  }
  std::size_t leases_of(std::uint64_t address) const {
    const auto found = leases_.find(address);
    return found == leases_.end() ? 0 : found->second.size();
  }
  /// Any address that is lent, for whoever wants to forge one; 0 if there is none.
  std::uint64_t any_address() const {
    for (const auto& [address, leases] : leases_) {
      if (!leases.empty()) return address;
    }
    return 0;
  }

 private:
  struct Lease {
    std::uint64_t holder;
    std::uint64_t length;
    std::uint64_t stream;
  };
  static void end(std::deque<Lease>& leases, std::size_t count, std::vector<std::uint64_t>* freed) {
    for (; count != 0; --count) {
      freed->push_back(leases.front().holder);
      leases.pop_front();
    }
  }

  bool counted_;
  std::uint64_t stream_ = 0;
  std::map<std::uint64_t, std::deque<Lease>> leases_;
  std::map<std::uint64_t, std::size_t> owed_;
};

}  // namespace crossdock::simulation
