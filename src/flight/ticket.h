#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/hmac.h"

namespace crossdock::flight {

/// Signs tickets, and checks them (docs/how-to/flight.md, "Tickets"). A ticket says what its holder may do, and until
/// when; it works for everybody who has it, any number of times, at each server with the key. Thread-safe.
class TicketKeys {
 public:
  enum class Purpose : std::uint8_t {
    kRead = 1,   ///< The table of a name.
    kLogin = 2,  ///< Calls of Flight, as the user of a name.
  };
  /// Returns the seconds since 1970.
  using Clock = std::function<std::int64_t()>;

  static constexpr std::size_t kLeastKey = 16;
  static constexpr std::size_t kMostKeys = 16;
  /// The longest name in a ticket.
  static constexpr std::size_t kMostSubject = 1 << 20;
  /// Servers that share a key have clocks that differ by this much at most, in seconds.
  static constexpr std::int64_t kClockTolerance = 60;

  /// The first key signs, and all check. Without keys, a random one is made. Throws InvalidArgumentError for a key of
  /// less than kLeastKey bytes, and more than kMostKeys keys.
  explicit TicketKeys(const std::vector<std::string>& keys = {}, Clock now = {});

  /// Takes other keys: tickets of keys that aren't among them are refused from now on. Without keys, a random one signs
  /// from now on, and the one that has signed so far goes on checking. Throws InvalidArgumentError; then nothing has
  /// changed.
  void replace(const std::vector<std::string>& keys);

  /// Returns a ticket that expires after so many seconds. Throws InvalidArgumentError for a too long subject.
  std::string sign(Purpose purpose, std::string_view subject, std::int64_t lifetime_s) const;
  /// Returns the subject of a ticket. Throws UnauthenticatedError if it isn't one for this purpose, was changed, is of
  /// another key, or has expired.
  std::string check(Purpose purpose, std::string_view ticket) const;

  /// By the clock that tickets are checked by, in seconds since 1970.
  std::int64_t now() const { return now_(); }

  /// Returns what may be shown of a request: the name in a signed ticket, which isn't checked, without its signature;
  /// other bytes as they are.
  static std::string_view without_signature(std::string_view bytes) noexcept;
  /// Whether bytes begin as a ticket: no name that is published by a server with keys may.
  static bool looks_signed(std::string_view bytes) noexcept;

 private:
  struct Key {
    std::string secret;
    std::uint64_t id = 0;
  };
  using Keys = std::vector<Key>;
  static Keys checked(const std::vector<std::string>& secrets);
  static Key random_key();
  std::shared_ptr<const Keys> keys() const;

  const Clock now_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;
};

}  // namespace crossdock::flight
