#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "token.h"
#include "transport/internal/handshake.h"

/// The records of the handshake, in bytes. All integers are little-endian. docs/reference/protocol-tcp.md is their
/// specification.
namespace crossdock::transport::net {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kPreambleBytes = 24;
inline constexpr std::size_t kMaxRecord = 512;

// Feature bits: each end offers its own; a feature is used when both offered it.
inline constexpr std::uint64_t kFeatureErrorMessages = 1;  ///< Knows message type 255.
inline constexpr std::uint64_t kFeatureCountedLeases = 2;  ///< A client: frees each address as often as it was sent.
inline constexpr std::uint64_t kFeatureCancel = 4;         ///< Knows an End of Stream that is sent by the client.
inline constexpr std::uint64_t kFeatureChecksums = 8;      ///< Knows the checksums of frames.
/// Requests checksums: they are used if both ends know them and one requests them.
inline constexpr std::uint64_t kFeatureAsksForChecksums = 16;
/// A server: lets its memory be read. A client: reads it.
inline constexpr std::uint64_t kFeatureReads = 32;
inline constexpr std::uint64_t kFeatureWantsParts = 64;    ///< A client: wants some columns of each batch only.
inline constexpr std::uint64_t kFeatureNoBodies = 128;     ///< A client: accepts no bodies by value.
inline constexpr std::uint64_t kFeatureEndpoints = 256;    ///< Has endpoints of libfabric for bodies.
inline constexpr std::uint64_t kFeaturePieces = 512;       ///< Over UCX: knows bodies in pieces.
inline constexpr std::uint64_t kFeatureParameters = 1024;  ///< Knows requests with parameters.

/// The features that every transport offers.
inline constexpr std::uint64_t kCommonFeatures =
    kFeatureErrorMessages | kFeatureCountedLeases | kFeatureCancel | kFeatureParameters;
/// Whether frames have checksums between two ends that offered these features.
constexpr bool use_checksums(std::uint64_t own, std::uint64_t peer) noexcept {
  return (own & peer & kFeatureChecksums) != 0 && ((own | peer) & kFeatureAsksForChecksums) != 0;
}

/// The protection of the connection after the handshake.
enum class Mode : std::uint32_t { kPlain = 0, kTls = 1 };

enum class RecordType : std::uint32_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kChallenge = 4,
  kProof = 5,
  kEndpoint = 6
};

/// The beginning of every record.
struct Preamble {
  RecordType type = RecordType::kHello;
  std::uint32_t version = kProtocolVersion;
  std::uint32_t size = 0;  ///< Of the whole record, in bytes.
  Mode mode = Mode::kPlain;
};

/// The client's first record.
struct Hello {
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint32_t role = 0;  ///< The number of a ChannelRole.
  bool has_token = false;
  Nonce nonce{};
};

/// The server's second step if it has a token.
struct Challenge {
  Nonce nonce{};
};

/// The client's answer to a Challenge.
struct TokenProof {
  Proof proof{};
};

/// The server's acceptance.
struct Welcome {
  std::uint64_t features = 0;
  std::uint64_t max_message = 0;
  std::uint64_t max_body = 0;
  std::uint64_t want_data = 0;
  std::uint64_t free_data = 0;
  Proof proof{};  ///< Zeros without a token.
};

/// Either end's endpoint of libfabric, before the Welcome.
struct EndpointOffer {
  std::uint64_t opening = 0;  ///< The tag of the first message that this endpoint wants.
  std::uint32_t ways = 0;     ///< Bits of Ways: a server's that it has, a client's that both use.
  bool one_sided = false;     ///< Its provider reads and sends without calls.
  bool wants_parts = false;   ///< The client's ConnectOptions::wants_parts.
  std::uint16_t port = 0;     ///< Of the endpoint, at the address of the link.
  std::string provider;
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Challenge& challenge);
std::vector<std::byte> encode(const TokenProof& proof);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Refused& refused);
std::vector<std::byte> encode(const EndpointOffer& offer);

/// Whether a HELLO or a WELCOME was changed on its way, according to its own CRC-32C. The record must be complete, with
/// at least its minimum length. A record of an older end is shorter, has no CRC, and can't be checked; a record that
/// announces checksums must have one.
[[nodiscard]] bool is_damaged(ByteSpan hello, const Hello& decoded) noexcept;
[[nodiscard]] bool is_damaged(ByteSpan welcome, const Welcome& decoded) noexcept;

/// The part of a welcome that its proof covers.
ByteSpan proven_part(ByteSpan welcome) noexcept;

/// Whether these bytes, few as they may be, begin as every record of this protocol does.
[[nodiscard]] bool begins_record(ByteSpan bytes) noexcept;

/// Returns false if the bytes aren't a record of this protocol, or have a size that no record has. `bytes` has at least
/// kPreambleBytes. The content after the preamble depends on the version: check that first.
[[nodiscard]] bool decode(ByteSpan bytes, Preamble* preamble) noexcept;

/// Decodes a complete record of the right type. Returns false if it is too short. Additional bytes are ignored: later
/// minor versions may append fields.
[[nodiscard]] bool decode(ByteSpan record, Hello* hello) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Challenge* challenge) noexcept;
[[nodiscard]] bool decode(ByteSpan record, TokenProof* proof) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Welcome* welcome) noexcept;
[[nodiscard]] bool decode(ByteSpan record, Refused* refused);
[[nodiscard]] bool decode(ByteSpan record, EndpointOffer* offer);

}  // namespace crossdock::transport::net
