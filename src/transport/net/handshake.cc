#include "handshake.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "crossdock/core/error.h"
#include "transport/internal/handshake_queue.h"
#include "transport/ways.h"

namespace crossdock::transport::net {
namespace {

/// A client with a wrong token waits this long for the answer, and occupies a handshake meanwhile. So an attacker gets
/// at most HandshakeQueue::kMaxHandshakes guesses in this time.
constexpr std::chrono::milliseconds kWrongTokenDelay{1000};
/// At most this many wrong tokens of one peer wait at once, so that handshakes are left for other peers. While that
/// many wait, none of the peer's tokens is checked, right or wrong, so that the answer reveals nothing.
constexpr std::ptrdiff_t kMaxWrongTokensPerPeer = HandshakeQueue::kMaxHandshakes / 4;

/// Decodes the preamble of a whole record. Returns false if the bytes are no such record.
bool read_preamble(ByteSpan record, Preamble* preamble) noexcept {
  return record.size() >= kPreambleBytes && decode(record, preamble) && preamble->size == record.size();
}

}  // namespace

std::uint64_t features_of(const ConnectOptions& wishes, Ways have, const std::string& where) {
  const Ways ways = agreed_ways(wishes.ways, have, where);
  return (ways.has(Way::kRead) ? kFeatureReads : 0) | (ways.has(Way::kMessage) ? 0 : kFeatureNoBodies) |
         (wishes.wants_parts ? kFeatureWantsParts : 0);
}

ConnectOptions agreed_wishes(ChannelRole role, std::uint64_t client_features, std::uint64_t server_features) {
  ConnectOptions agreed{.role = role, .ways = {}, .wants_parts = (client_features & kFeatureWantsParts) != 0};
  if ((client_features & server_features & kFeatureReads) != 0) agreed.ways = Way::kRead;
  if ((client_features & kFeatureNoBodies) == 0) agreed.ways = agreed.ways | Way::kMessage;
  return agreed;
}

ClientHandshake::ClientHandshake(const Hello& hello, std::string token, const HandshakeNames& names, std::string where)
    : token_(std::move(token)),
      names_(names),
      where_(std::move(where)),
      has_token_(hello.has_token),
      opening_(encode(hello)) {}

std::vector<std::byte> ClientHandshake::advance(std::vector<std::byte> record) {
  Preamble preamble;
  if (!read_preamble(record, &preamble)) {
    throw HandshakeError(where_ + " answered with something else: it is not a Crossdock server");
  }
  if (preamble.type == RecordType::kRefused) {
    Refused refused;
    if (!decode(record, &refused)) throw HandshakeError(where_ + " refused the connection in a malformed record");
    throw_refused(refused, where_, preamble.version, kProtocolVersion);
  }
  require_server_version(where_, preamble.version, kProtocolVersion);
  if (preamble.mode != Mode::kPlain) throw HandshakeError(where_ + " answered in a mode that wasn't requested");
  if (preamble.type == RecordType::kChallenge && has_token_ && challenge_.empty()) {
    Challenge challenge;
    if (!decode(record, &challenge)) throw HandshakeError(where_ + " sent a CHALLENGE that is too short");
    challenge_ = std::move(record);
    const std::array<ByteSpan, 2> so_far = {opening_, challenge_};
    return encode(TokenProof{prove(token_, names_.client_role, so_far)});
  }
  if (preamble.type != RecordType::kWelcome || !decode(record, &welcome_)) {
    throw HandshakeError(where_ + " answered with something else, or with a WELCOME that is too short");
  }
  check_welcome(record);
  complete_ = true;
  return {};
}

void ClientHandshake::check_welcome(ByteSpan record) const {
  if (is_damaged(record, welcome_)) {
    throw HandshakeError(where_ + "'s WELCOME was damaged on its way: its CRC-32C is wrong; check the network");
  }
  if (!has_token_) return;
  if (challenge_.empty()) {
    throw PermissionError(where_ +
                          " requests no token, so it can't prove that it knows this client's token: leave the token "
                          "out to trust it nevertheless, or give the server the token");
  }
  const std::array<ByteSpan, 3> all = {opening_, challenge_, proven_part(record)};
  if (!same(welcome_.proof, prove(token_, names_.server_role, all))) {
    throw PermissionError(where_ + " doesn't know the token: it may be another server than the one expected");
  }
}

ServerHandshake::ServerHandshake(const HandshakeNames& names, const std::string& token, WrongTokens& wrong_tokens,
                                 const SocketAddress& peer, std::string where, Serves serves)
    : names_(names),
      token_(token),
      wrong_tokens_(wrong_tokens),
      peer_(peer),
      where_(std::move(where)),
      serves_(serves) {}

ServerHandshake::~ServerHandshake() { std::erase(wrong_tokens_.waiting_, this); }

std::vector<std::byte> ServerHandshake::advance(std::vector<std::byte> record) {
  if (challenge_.empty()) return read_opening(std::move(record));
  check_proof(record);
  return {};
}

std::vector<std::byte> ServerHandshake::read_opening(std::vector<std::byte> record) {
  Preamble preamble;
  if (!read_preamble(record, &preamble) || preamble.type != RecordType::kHello) {
    throw ProtocolError(std::string(kNoHello));
  }
  require_client_version(preamble.version, kProtocolVersion);
  if (preamble.mode != Mode::kPlain) {
    throw Rejection{{Refusal::kMode, "the client requests mode " +
                                         std::to_string(static_cast<std::uint32_t>(preamble.mode)) +
                                         "; this server supports only plain connections (mode 0)"}};
  }
  if (!decode(record, &hello_)) throw ProtocolError("the client's HELLO is too short");
  if (is_damaged(record, hello_)) {
    throw ProtocolError("the client's HELLO was damaged on its way: its CRC-32C is wrong; check the network");
  }
  role_ = checked_role(hello_.role, hello_.max_message, serves_);
  if (token_.empty()) return {};
  if (!hello_.has_token) {
    throw Rejection{{Refusal::kNotAllowed,
                     "this server requires a token, and the client has none: give it as token= in Python, or in "
                     "CROSSDOCK_TOKEN to the command crossdock"}};
  }
  opening_ = std::move(record);
  challenge_ = encode(Challenge{make_nonce()});
  return challenge_;
}

void ServerHandshake::check_proof(ByteSpan record) {
  Preamble preamble;
  if (!read_preamble(record, &preamble) || preamble.type != RecordType::kProof) {
    throw ProtocolError("the client sent no PROOF of the token");
  }
  const auto wrong_tokens = std::ranges::count_if(
      wrong_tokens_.waiting_, [&](const ServerHandshake* other) { return same_peer(other->peer_, peer_); });
  if (wrong_tokens >= kMaxWrongTokensPerPeer) {
    throw Rejection{{Refusal::kResources, "too many wrong tokens arrived from this address; try again in a second"}};
  }
  TokenProof given;
  if (!decode(record, &given)) throw ProtocolError("the client's PROOF is too short");
  const std::array<ByteSpan, 2> records = {opening_, challenge_};
  if (same(given.proof, prove(token_, names_.client_role, records))) return;
  if (wrong_tokens_.log_) wrong_tokens_.log_(LogLevel::kWarning, where_ + " gave a wrong token");
  wrong_tokens_.waiting_.push_back(this);
  throw Rejection{{Refusal::kNotAllowed, "the token is wrong"}, kWrongTokenDelay};
}

std::vector<std::byte> ServerHandshake::accept(Welcome welcome) const {
  std::vector<std::byte> record = encode(welcome);
  if (challenge_.empty()) return record;
  const std::array<ByteSpan, 3> records = {opening_, challenge_, proven_part(record)};
  welcome.proof = prove(token_, names_.server_role, records);
  return encode(welcome);
}

}  // namespace crossdock::transport::net
