#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "peers/shared_frames.h"
#include "peers/wire.h"
#include "session/region_numbers.h"
#include "transport/transport.h"

namespace crossdock::peers {

/// The regions of this end's memory that a peer has been shown, and how many frames in each of them it hasn't released
/// yet. Use it on one thread at a time.
class RegionsWithPeer {
 public:
  /// An address for a message's table.
  struct Place {
    std::uint64_t address = 0;
    std::uint32_t region = 0;  ///< Its number.
  };
  enum class Outcome : std::uint8_t {
    kPlaced,
    kNoRoom,   ///< Nothing was announced: try again after the peer has made progress.
    kByValue,  ///< The peer has as many regions as it takes, as many bytes as it may have, or too many frames of this
               ///< region, or the system refuses to pass it: send the frame by value.
  };

  /// `lease_limit`: the most bytes of regions that the peer may have; a single region may be larger.
  explicit RegionsWithPeer(std::uint64_t lease_limit) noexcept : lease_limit_(lease_limit) {}

  /// Finds the address of a frame, announces its region if the peer doesn't know it, and counts the frame. `most`
  /// limits the regions. Throws the errors of Connection::announce(), but no ResourceError: other peers may be the
  /// reason for that, and a copy may need no resources.
  Outcome place(transport::Connection& connection, const SharedFrame& frame, std::uint32_t most, Place* place);
  /// What place() will answer for the frames of one message, before any of their regions is announced.
  class Plan {
   public:
    Plan(const RegionsWithPeer& regions, std::uint32_t most) noexcept : regions_(regions), most_(most) {}
    /// Whether this frame goes by value, after those that were asked about before.
    bool by_value(const SharedFrame& frame);

   private:
    const RegionsWithPeer& regions_;
    const std::uint32_t most_;
    std::set<const device::Region*> new_;
    std::uint64_t new_bytes_ = 0;
  };
  /// The peer has released frames. Throws ProtocolError if it doesn't have that many: nothing is released then.
  void released(const wire::Released& what);
  /// Retires the regions that have no frame left, so that their memory is free. `sent`: how many messages were sent
  /// before. Returns false if there is no room for all of that. Throws the errors of Connection::retire().
  bool retire(transport::Connection& connection, std::uint64_t sent);
  /// The peer has taken so many messages: it knows of what was retired before the last of them.
  void peer_took(std::uint64_t messages) noexcept;
  /// Whether retire() has something to do.
  bool any_free() const noexcept { return !free_.empty(); }

  std::size_t size() const noexcept { return entries_.size(); }
  /// The connection has ended. The peer may go on reading what it has, or have passed it on, and nobody will tell when
  /// that is over: blocks of pools are freed, and not used again. Memory that was received is kept until this process
  /// ends, because its maker would use it again.
  void abandon() noexcept;

 private:
  struct Entry {
    std::uint64_t base = 0;                          // the peer's address of the region's first byte
    std::uint64_t frames = 0;                        // that the peer has
    SharedFrame memory;                              // one of them, which keeps the region
    std::vector<std::shared_ptr<const void>> keeps;  // of memory that was received, besides memory.keep
  };
  /// Retirements that the peer may not have read.
  struct Retired {
    std::uint64_t sent = 0;  // messages, before these
    std::size_t regions = 0;
  };
  bool has_room(const device::Region& region, std::uint32_t most, std::size_t more_regions = 0,
                std::uint64_t more_bytes = 0) const noexcept;
  const std::uint64_t lease_limit_;
  std::uint64_t lent_ = 0;  // bytes of the entries' regions
  session::RegionNumbers numbers_;
  std::map<std::uint16_t, Entry> entries_;
  std::vector<std::uint16_t> free_;  // numbers of entries without frames
  std::deque<Retired> retired_;
  std::size_t retired_regions_ = 0;  // in all of retired_
};

}  // namespace crossdock::peers
