#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/core/bytes.h"
#include "token.h"

/// The records of the handshake, in bytes. All integers are little-endian. docs/protocol-tcp.md is their specification.
namespace crossdock::transport::tcp {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kPreambleBytes = 24;
inline constexpr std::size_t kMaxRecord = 512;

// Feature bits: each end offers its own; a feature is used when both offered it.
inline constexpr std::uint64_t kFeatureErrorMessages = 1;  ///< Knows message type 255.
inline constexpr std::uint64_t kFeatureCountedLeases = 2;  ///< A client: frees each address as often as it was sent.
inline constexpr std::uint64_t kFeatureCancel = 4;         ///< Knows an End of Stream from the client.
inline constexpr std::uint64_t kFeatureChecksums = 8;      ///< Knows the checksums of frames.
/// Asks for them: they are used if both ends know them and one asks.
inline constexpr std::uint64_t kFeatureAsksForChecksums = 16;

/// How what follows the handshake is protected.
enum class Mode : std::uint32_t { kPlain = 0, kTls = 1 };

enum class RecordType : std::uint32_t { kHello = 1, kWelcome = 2, kRefused = 3, kChallenge = 4, kProof = 5 };

/// What every record starts with.
struct Preamble {
  RecordType type = RecordType::kHello;
  std::uint32_t version = kProtocolVersion;
  std::uint32_t size = 0;  ///< Of the whole record.
  Mode mode = Mode::kPlain;
};

/// Client's opening.
struct Hello {
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint32_t role = 0;  ///< As ChannelRole counts.
  bool has_token = false;
  Nonce nonce{};
};

/// Server's question, where it has a token.
struct Challenge {
  Nonce nonce{};
};

/// Client's answer to it.
struct TokenProof {
  Proof proof{};
};

/// Server's consent.
struct Welcome {
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  Proof proof{};  ///< Zeros without a token.
};

enum class Refusal : std::uint32_t {
  kOtherVersion = 1,  ///< No common version.
  kToken = 2,         ///< A token is needed, or it was the wrong one.
  kMalformed = 3,     ///< The opening breaks the rules.
  kResources = 4,     ///< The server has no descriptors or memory left, or clients enough.
  kMode = 5,          ///< The server doesn't protect connections in this way.
  kChecksums = 6,     ///< The server wants checksums of frames, and the client doesn't know them or was told not to.
};

/// Server's refusal; the connection is closed after it.
struct Refused {
  Refusal code = Refusal::kMalformed;
  std::string reason;  ///< UTF-8, cut off at 400 bytes.
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Challenge& challenge);
std::vector<std::byte> encode(const TokenProof& proof);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Refused& refused);

/// Whether a HELLO or a WELCOME, whole and of its length at least, differs from what was sent, by its own CRC-32C. One
/// that ends before that (an older end's) can't be checked; one that knows checksums must have it.
[[nodiscard]] bool is_damaged(ByteSpan hello, const Hello& decoded) noexcept;
[[nodiscard]] bool is_damaged(ByteSpan welcome, const Welcome& decoded) noexcept;

/// The part of a welcome that its proof is about.
ByteSpan proven_part(ByteSpan welcome) noexcept;

/// False: nothing of ours, or of a size that none has. `bytes` has at least kPreambleBytes. What follows the preamble
/// belongs to the version: check that first.
[[nodiscard]] bool decode(ByteSpan bytes, Preamble* preamble) noexcept;

/// Of a whole record of the right type. False: too short. Bytes beyond those known are ignored: later minor additions
/// go there.
[[nodiscard]] bool decode(ByteSpan record, Hello* hello) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Challenge* challenge) noexcept;
[[nodiscard]] bool decode(ByteSpan record, TokenProof* proof) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Welcome* welcome) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Refused* refused);

}  // namespace crossdock::transport::tcp
