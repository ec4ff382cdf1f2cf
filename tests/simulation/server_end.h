#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dissociated/sender.h"
#include "environment.h"
#include "plain_ledger.h"

namespace crossdock::simulation {

/// What a connection carries of a stream.
enum class Role : std::uint8_t { kBoth, kMetadata, kData };

/// The server's end of one connection: drives the Sender under test as a server does, and holds each of its answers
/// against a PlainLedger and the rules of docs/reference/protocol.md.
class ServerEnd {
 public:
  struct Options {
    Role role = Role::kBoth;
    dissociated::PeerFeatures peer;
    bool fails = true;                ///< Where the plan says so: of two servers each may or may not.
    bool honest = true;               ///< Nothing that this client sends may be an error.
    std::uint32_t window = 8;         ///< Messages in flight, at most.
    std::uint32_t live_blocks = 3;    ///< The lease limit of a live stream, in messages.
    bool waits_at_limit = false;      ///< Else bodies go by value there.
    std::uint16_t live_region = 100;  ///< The region number of the first live stream.
  };
  ServerEnd(const Options& options, Environment& environment, Wire& wire, Books& books, Random random);

  /// Takes what came, sends what may be sent. True if anything happened. Throws Failure.
  bool turn();
  bool gone() const noexcept { return gone_; }
  const PlainLedger& ledger() const noexcept { return model_; }
  /// Throws Failure if leases are out, or memory of a live stream is.
  void check_nothing_is_out() const;

 private:
  /// Memory of a live stream: blocks of kColumns buffers, reused once every lease of a block was freed.
  struct LiveMemory {
    std::uint16_t region = 0;
    std::vector<std::uint32_t> out;  // leases by block; a block is also a slot, and part of a holder's number
  };

  void check(const Packet& packet);
  bool is_error(const Packet& packet, std::vector<std::uint64_t>* freed);
  void begin(ByteSpan ticket);
  bool advance();
  bool send_message();
  bool take_live_block(std::uint32_t rows, std::vector<dissociated::RemoteBuffer>* buffers, std::uint32_t* block);
  void end_if_only_bodies();
  void end_stream();
  void fail_stream(const std::string& reason);
  void return_blocks(const std::vector<std::uint64_t>& holders);
  void check_totals() const;
  void check_reads(const Packet& packet) const;
  void drop();
  std::string name() const { return "consumer " + std::to_string(books_.consumer); }

  Options options_;
  Environment& environment_;
  Wire& wire_;
  Books& books_;
  Random random_;
  std::optional<dissociated::Sender> sender_;  // until the connection ends
  PlainLedger model_;
  bool gone_ = false;

  bool streaming_ = false;
  std::shared_ptr<StreamRecord> record_;
  std::size_t position_ = 0;
  bool jumped_ = false;
  std::uint32_t stream_ = 0;
  std::map<std::uint32_t, LiveMemory> live_;
};

}  // namespace crossdock::simulation
