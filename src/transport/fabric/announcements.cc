#include "announcements.h"

namespace crossdock::transport::fabric {
namespace {

constexpr std::size_t kNumber = sizeof(std::uint64_t);
constexpr std::size_t kBodyHeader = 2 * kNumber;
constexpr std::size_t kRegionBytes = 3 * kNumber;

}  // namespace

std::vector<std::byte> encode(const BodyAnnouncement& body) {
  std::vector<std::byte> bytes(kBodyHeader + kNumber * body.lengths.size());
  store_le(&bytes[0], body.size);
  store_le(&bytes[kNumber], body.first_tag);
  std::byte* to = bytes.data() + kBodyHeader;
  for (const std::uint64_t length : body.lengths) {
    store_le(to, length);
    to += kNumber;
  }
  return bytes;
}

std::vector<std::byte> encode(const RegionAnnouncement& region) {
  std::vector<std::byte> bytes(kRegionBytes);
  store_le(&bytes[0], region.size);
  store_le(&bytes[kNumber], region.start);
  store_le(&bytes[2 * kNumber], region.key);
  return bytes;
}

bool decode(ByteSpan payload, BodyAnnouncement* body) {
  if (payload.size() <= kBodyHeader || payload.size() % kNumber != 0) return false;
  body->size = load_le<std::uint64_t>(&payload[0]);
  body->first_tag = load_le<std::uint64_t>(&payload[kNumber]);
  body->lengths.clear();
  std::uint64_t left = body->size;
  for (std::size_t at = kBodyHeader; at < payload.size(); at += kNumber) {
    const auto length = load_le<std::uint64_t>(&payload[at]);
    if (length == 0 || length > left) return false;
    left -= length;
    body->lengths.push_back(length);
  }
  return left == 0;
}

bool decode(ByteSpan payload, RegionAnnouncement* region) {
  if (payload.size() != kRegionBytes) return false;
  region->size = load_le<std::uint64_t>(&payload[0]);
  region->start = load_le<std::uint64_t>(&payload[kNumber]);
  region->key = load_le<std::uint64_t>(&payload[2 * kNumber]);
  std::uint64_t end = 0;
  return region->size > 0 && region->size <= std::uint64_t{1} << 48 && checked_add(region->start, region->size, &end);
}

}  // namespace crossdock::transport::fabric
