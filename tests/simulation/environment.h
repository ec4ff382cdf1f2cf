#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "link.h"
#include "stream_plan.h"

namespace crossdock::simulation {

inline constexpr std::uint64_t kWantData = 0x1122334455667788;
inline constexpr std::uint64_t kFreeData = 0x99AABBCCDDEEFF00;

/// What every actor of a world sees: its clock, and the paper on which what happened is written down.
struct Environment {
  const Metadata& metadata;
  std::uint64_t now = 0;
  bool draining = false;  ///< Everybody who may act does, at once: the world comes to rest.
  bool tracing = false;
  std::vector<std::string> trace{};
  std::uint64_t digest = 0xCBF29CE484222325;  ///< Of all that happened: equal for equal runs.

  void happened(std::uint64_t what) noexcept {
    for (const std::uint64_t word : {now, what}) digest = (digest ^ word) * 0x100000001B3;
  }
  /// `text` is called only where somebody will read it.
  template <typename Text>
  void note(std::size_t consumer, Text text) {
    if (tracing) trace.push_back("t=" + std::to_string(now) + " consumer " + std::to_string(consumer) + ": " + text());
  }
};

/// Both directions of one simulated connection.
struct Wire {
  Link to_client;
  Link to_server;

  void cut(std::uint64_t now) {
    to_client.cut(now);
    to_server.cut(now);
  }
};

/// What the two ends of one consumer are checked by.
struct Books {
  std::size_t consumer = 0;
  std::vector<std::shared_ptr<StreamRecord>> records;  ///< Of the streams asked for; a ticket is an index.
  /// How often each address was sent, less what the client has released: memory that it may still read.
  std::map<std::uint64_t, std::uint32_t> entitled;
  /// A read of the server's memory that was begun: it goes on until then, whatever its client does.
  struct Read {
    std::uint64_t address = 0;
    std::uint64_t ends_at = 0;
  };
  std::vector<Read> reads;
  std::size_t reads_under_way(std::uint64_t address, std::uint64_t now) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(reads, [&](const Read& read) { return read.address == address && now < read.ends_at; }));
  }
};

}  // namespace crossdock::simulation
