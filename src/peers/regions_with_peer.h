#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
    kByValue,  ///< The peer has as many regions as it takes, or too many frames of this one: send the frame by value.
  };

  /// Finds the address of a frame, announces its region if the peer doesn't know it, and counts the frame. `most`
  /// limits the regions. Throws the errors of Connection::announce().
  Outcome place(transport::Connection& connection, const SharedFrame& frame, std::uint32_t most, Place* place);
  /// The peer has released frames. Throws ProtocolError if it doesn't have that many: nothing is released then.
  void released(const wire::Released& what);
  /// Retires the regions that have no frame left, so that their memory is free. Returns false if there is no room for
  /// all of that. Throws the errors of Connection::retire().
  bool retire(transport::Connection& connection);
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
  session::RegionNumbers numbers_;
  std::map<std::uint16_t, Entry> entries_;
  std::vector<std::uint16_t> free_;  // numbers of entries without frames
};

}  // namespace crossdock::peers
