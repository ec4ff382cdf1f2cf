#include "flight/ticket.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "flight/status.h"

namespace crossdock::flight {
namespace {

constexpr std::string_view kMagic = "XDT\x01";
constexpr std::size_t kHeaderBytes = 24;
constexpr std::string_view kSigning = "crossdock ticket 1";
constexpr std::string_view kNaming = "crossdock ticket key";

std::int64_t system_seconds() {
  using std::chrono::seconds;
  return std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Digest signature(std::string_view secret, std::string_view content) {
  const std::array<ByteSpan, 2> parts = {as_bytes(kSigning), as_bytes(content)};
  return hmac_sha256(secret, parts);
}

std::byte* bytes_at(std::string& text, std::size_t at) noexcept {
  return reinterpret_cast<std::byte*>(text.data()) + at;
}

[[noreturn]] void refuse(const std::string& why) {
  throw UnauthenticatedError("the ticket " + why + ": ask the Flight server for a new one");
}

}  // namespace

TicketKeys::TicketKeys(const std::vector<std::string>& keys, Clock now)
    : now_(now ? std::move(now) : Clock(system_seconds)),
      keys_(std::make_shared<const Keys>(keys.empty() ? Keys{random_key()} : checked(keys))) {}

TicketKeys::Keys TicketKeys::checked(const std::vector<std::string>& secrets) {
  if (secrets.size() > kMostKeys) {
    throw InvalidArgumentError(std::to_string(secrets.size()) + " ticket keys were given, and " +
                               std::to_string(kMostKeys) + " are the most");
  }
  Keys keys;
  for (const std::string& secret : secrets) {
    if (secret.size() < kLeastKey) {
      throw InvalidArgumentError("a ticket key of " + std::to_string(secret.size()) + " bytes can be guessed: give " +
                                 std::to_string(kLeastKey) + " random bytes or more");
    }
    // The key's name tells nothing of it.
    const std::array<ByteSpan, 1> parts = {as_bytes(kNaming)};
    keys.push_back({secret, load_le<std::uint64_t>(hmac_sha256(secret, parts).data())});
  }
  return keys;
}

TicketKeys::Key TicketKeys::random_key() {
  std::string secret(32, '\0');
  fill_random(std::as_writable_bytes(std::span(secret)));
  return checked({std::move(secret)}).front();
}

std::shared_ptr<const TicketKeys::Keys> TicketKeys::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

void TicketKeys::replace(const std::vector<std::string>& keys) {
  Keys next = keys.empty() ? Keys{random_key()} : checked(keys);
  std::shared_ptr<const Keys> dropped;
  const std::lock_guard lock(mutex_);
  if (keys.empty()) next.push_back(keys_->front());
  dropped = std::exchange(keys_, std::make_shared<const Keys>(std::move(next)));
}

std::string TicketKeys::sign(Purpose purpose, std::string_view subject, std::int64_t lifetime_s) const {
  if (subject.size() > kMostSubject) {
    throw InvalidArgumentError("a name of " + std::to_string(subject.size()) + " bytes is too long for a ticket");
  }
  const auto all = keys();
  const Key& key = all->front();
  std::string ticket(kMagic);
  ticket.resize(kHeaderBytes);
  *bytes_at(ticket, 4) = static_cast<std::byte>(purpose);
  store_le(bytes_at(ticket, 8), key.id);
  store_le(bytes_at(ticket, 16), now_() + lifetime_s);
  ticket += subject;
  const Digest digest = signature(key.secret, ticket);
  ticket += as_text(digest);
  return ticket;
}

std::string TicketKeys::check(Purpose purpose, std::string_view ticket) const {
  if (!looks_signed(ticket)) refuse("isn't a signed one");
  if (ticket.size() < kHeaderBytes + sizeof(Digest) || ticket.size() > kHeaderBytes + kMostSubject + sizeof(Digest)) {
    refuse("has a wrong length");
  }
  const std::string_view content = ticket.substr(0, ticket.size() - sizeof(Digest));
  const auto* const header = reinterpret_cast<const std::byte*>(content.data());
  const auto all = keys();
  const auto key = std::ranges::find(*all, load_le<std::uint64_t>(header + 8), &Key::id);
  if (key == all->end()) refuse("was signed by another server, or with a key that is no longer valid");
  Digest given;
  std::memcpy(given.data(), ticket.data() + content.size(), given.size());
  if (!same(given, signature(key->secret, content))) refuse("was changed");
  if (content[4] != static_cast<char>(purpose)) refuse("is for another purpose");
  const std::int64_t late = now_() - load_le<std::int64_t>(header + 16);
  if (late > kClockTolerance) refuse("has expired " + std::to_string(late) + " s ago");
  return std::string(content.substr(kHeaderBytes));
}

std::string_view TicketKeys::without_signature(std::string_view bytes) noexcept {
  if (!looks_signed(bytes)) return bytes;
  if (bytes.size() <= kHeaderBytes + sizeof(Digest)) return "a signed ticket";
  return bytes.substr(kHeaderBytes, bytes.size() - kHeaderBytes - sizeof(Digest));
}

bool TicketKeys::looks_signed(std::string_view bytes) noexcept { return bytes.starts_with(kMagic); }

}  // namespace crossdock::flight
