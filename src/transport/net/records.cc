#include "records.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "crc32c.h"

namespace crossdock::transport::net {
namespace {

constexpr std::array<char, 8> kMagic = {'X', 'D', 'O', 'C', 'K', 'T', 'C', 'P'};

constexpr std::size_t kRecordChecksumBytes =
    4;                                   // a CRC-32C of everything before it; a record of an older end stops there
constexpr std::size_t kHelloBytes = 88;  // plus the checksum
constexpr std::size_t kChallengeBytes = 56;
constexpr std::size_t kProofRecordBytes = 56;
constexpr std::size_t kWelcomeProof = 64;
constexpr std::size_t kWelcomeBytes = 96;   // plus the checksum
constexpr std::size_t kEndpointBytes = 44;  // plus the provider's name
constexpr std::uint32_t kHasToken = 1;
constexpr std::uint32_t kOneSided = 1;
constexpr std::uint32_t kWantsParts = 2;

std::vector<std::byte> record(std::size_t size, RecordType type) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  store_le(&bytes[8], static_cast<std::uint32_t>(type));
  store_le(&bytes[12], kProtocolVersion);
  store_le(&bytes[16], static_cast<std::uint32_t>(size));
  store_le(&bytes[20], static_cast<std::uint32_t>(Mode::kPlain));
  return bytes;
}

template <std::size_t N>
void put(std::byte* to, const std::array<std::byte, N>& bytes) noexcept {
  std::memcpy(to, bytes.data(), N);
}

template <std::size_t N>
void get(const std::byte* from, std::array<std::byte, N>* bytes) noexcept {
  std::memcpy(bytes->data(), from, N);
}

void put_checksum(std::vector<std::byte>* record) {
  const std::size_t end = record->size() - kRecordChecksumBytes;
  store_le(record->data() + end, crc32c(ByteSpan(*record).first(end)));
}

bool is_damaged(ByteSpan record, std::size_t end, std::uint64_t features) noexcept {
  if (record.size() < end + kRecordChecksumBytes) return (features & kFeatureChecksums) != 0;
  return load_le<std::uint32_t>(&record[end]) != crc32c(record.first(end));
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  std::vector<std::byte> bytes = record(kHelloBytes + kRecordChecksumBytes, RecordType::kHello);
  store_le(&bytes[24], hello.features);
  store_le(&bytes[32], hello.max_message);
  store_le(&bytes[40], hello.max_body);
  store_le(&bytes[48], hello.role);
  store_le(&bytes[52], hello.has_token ? kHasToken : 0);
  put(&bytes[56], hello.nonce);
  put_checksum(&bytes);
  return bytes;
}

std::vector<std::byte> encode(const Challenge& challenge) {
  std::vector<std::byte> bytes = record(kChallengeBytes, RecordType::kChallenge);
  put(&bytes[24], challenge.nonce);
  return bytes;
}

std::vector<std::byte> encode(const TokenProof& proof) {
  std::vector<std::byte> bytes = record(kProofRecordBytes, RecordType::kProof);
  put(&bytes[24], proof.proof);
  return bytes;
}

std::vector<std::byte> encode(const Welcome& welcome) {
  std::vector<std::byte> bytes = record(kWelcomeBytes + kRecordChecksumBytes, RecordType::kWelcome);
  store_le(&bytes[24], welcome.features);
  store_le(&bytes[32], welcome.max_message);
  store_le(&bytes[40], welcome.max_body);
  store_le(&bytes[48], welcome.want_data);
  store_le(&bytes[56], welcome.free_data);
  put(&bytes[kWelcomeProof], welcome.proof);
  put_checksum(&bytes);
  return bytes;
}

std::vector<std::byte> encode(const Refused& refused) {
  std::vector<std::byte> bytes = record(kPreambleBytes, RecordType::kRefused);
  append(refused, &bytes);
  store_le(&bytes[16], static_cast<std::uint32_t>(bytes.size()));
  return bytes;
}

std::vector<std::byte> encode(const EndpointOffer& offer) {
  std::vector<std::byte> bytes = record(kEndpointBytes + offer.provider.size(), RecordType::kEndpoint);
  store_le(&bytes[24], offer.opening);
  store_le(&bytes[32], offer.ways);
  store_le(&bytes[36], (offer.one_sided ? kOneSided : 0) | (offer.wants_parts ? kWantsParts : 0));
  store_le(&bytes[40], offer.port);
  store_le(&bytes[42], static_cast<std::uint16_t>(offer.provider.size()));
  std::ranges::copy(as_bytes(offer.provider), bytes.begin() + kEndpointBytes);
  return bytes;
}

bool is_damaged(ByteSpan hello, const Hello& decoded) noexcept {
  return is_damaged(hello, kHelloBytes, decoded.features);
}

bool is_damaged(ByteSpan welcome, const Welcome& decoded) noexcept {
  return is_damaged(welcome, kWelcomeBytes, decoded.features);
}

ByteSpan proven_part(ByteSpan welcome) noexcept { return welcome.first(std::min(welcome.size(), kWelcomeProof)); }

bool begins_record(ByteSpan bytes) noexcept {
  const std::size_t size = std::min(bytes.size(), kMagic.size());
  return size > 0 && std::memcmp(bytes.data(), kMagic.data(), size) == 0;
}

bool decode(ByteSpan bytes, Preamble* preamble) noexcept {
  if (bytes.size() < kPreambleBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return false;
  const auto type = load_le<std::uint32_t>(&bytes[8]);
  if (type < 1 || type > static_cast<std::uint32_t>(RecordType::kEndpoint)) return false;
  preamble->type = static_cast<RecordType>(type);
  preamble->version = load_le<std::uint32_t>(&bytes[12]);
  preamble->size = load_le<std::uint32_t>(&bytes[16]);
  preamble->mode = static_cast<Mode>(load_le<std::uint32_t>(&bytes[20]));
  return preamble->size >= kPreambleBytes && preamble->size <= kMaxRecord;
}

bool decode(ByteSpan record, Hello* hello) noexcept {
  if (record.size() < kHelloBytes) return false;
  hello->features = load_le<std::uint64_t>(&record[24]);
  hello->max_message = load_le<std::uint64_t>(&record[32]);
  hello->max_body = load_le<std::uint64_t>(&record[40]);
  hello->role = load_le<std::uint32_t>(&record[48]);
  hello->has_token = (load_le<std::uint32_t>(&record[52]) & kHasToken) != 0;
  get(&record[56], &hello->nonce);
  return true;
}

bool decode(ByteSpan record, Challenge* challenge) noexcept {
  if (record.size() < kChallengeBytes) return false;
  get(&record[24], &challenge->nonce);
  return true;
}

bool decode(ByteSpan record, TokenProof* proof) noexcept {
  if (record.size() < kProofRecordBytes) return false;
  get(&record[24], &proof->proof);
  return true;
}

bool decode(ByteSpan record, Welcome* welcome) noexcept {
  if (record.size() < kWelcomeBytes) return false;
  welcome->features = load_le<std::uint64_t>(&record[24]);
  welcome->max_message = load_le<std::uint64_t>(&record[32]);
  welcome->max_body = load_le<std::uint64_t>(&record[40]);
  welcome->want_data = load_le<std::uint64_t>(&record[48]);
  welcome->free_data = load_le<std::uint64_t>(&record[56]);
  get(&record[kWelcomeProof], &welcome->proof);
  return true;
}

bool decode(ByteSpan record, EndpointOffer* offer) {
  if (record.size() < kEndpointBytes) return false;
  offer->opening = load_le<std::uint64_t>(&record[24]);
  offer->ways = load_le<std::uint32_t>(&record[32]);
  const auto flags = load_le<std::uint32_t>(&record[36]);
  offer->one_sided = (flags & kOneSided) != 0;
  offer->wants_parts = (flags & kWantsParts) != 0;
  offer->port = load_le<std::uint16_t>(&record[40]);
  const auto size = load_le<std::uint16_t>(&record[42]);
  if (size > record.size() - kEndpointBytes) return false;
  offer->provider = as_text(record.subspan(kEndpointBytes, size));
  return offer->port != 0;
}

bool decode(ByteSpan record, Refused* refused) { return transport::decode(record, kPreambleBytes, refused); }

}  // namespace crossdock::transport::net
