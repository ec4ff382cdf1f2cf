#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace crossdock::dissociated {

/// Consecutive batches of a table, by their places in it. `count` is above 0.
struct BatchRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool operator==(const BatchRange&) const = default;
};

/// What a client asks for with a want_data message (docs/reference/protocol.md, "Requests with parameters").
struct Request {
  std::string_view ticket{};
  /// The batches of the table that are wanted, in ascending order, without overlaps. Absent: all.
  std::optional<std::vector<BatchRange>> batches{};
  /// Asks for the table of batch statistics instead: of these columns, by name. Absent: asks for the data.
  std::optional<std::vector<std::string>> batch_statistics{};

  bool has_parameters() const noexcept { return batches.has_value() || batch_statistics.has_value(); }
};

/// The most ranges of batches in one request.
inline constexpr std::size_t kMostRanges = 4096;
/// The most columns of which one request may want batch statistics, and the most bytes of their names.
inline constexpr std::size_t kMostColumns = 1024;
inline constexpr std::size_t kMostColumnBytes = 1 << 16;

/// Whether bytes begin as a request with parameters does. No name that is published may.
bool begins_as_request(ByteSpan bytes) noexcept;

/// Returns the bytes of a request: the ticket alone, if it has no parameters. Throws InvalidArgumentError for what
/// parse_request() would refuse.
std::vector<std::byte> encode_request(const Request& request);

/// Reads a request; bytes that don't begin as one with parameters are a ticket. The ticket is a view of `bytes`. Throws
/// ProtocolError for malformed ones, UnsupportedError for parameters of a kind that isn't known.
Request parse_request(ByteSpan bytes);

}  // namespace crossdock::dissociated
