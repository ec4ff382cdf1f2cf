#include "dissociated/request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::dissociated {
namespace {

constexpr std::array<char, 8> kMagic{'\0', 'X', 'D', 'R', 'E', 'Q', '\0', '\1'};

/// The kinds of parameters.
enum class Kind : std::uint32_t { kEnd = 0, kBatches = 1, kBatchStatistics = 2 };

/// Why parameters are refused; null: they aren't.
const char* fault_of(const std::vector<BatchRange>& ranges) noexcept {
  if (ranges.size() > kMostRanges) return "it names too many ranges of batches";
  std::uint64_t end = 0;
  for (const BatchRange& range : ranges) {
    if (range.count == 0) return "it names a range without batches";
    if (range.first < end) return "its ranges of batches aren't in ascending order, or overlap";
    end = std::uint64_t{range.first} + range.count;
    if (end > std::uint64_t{1} << 32) return "it names a range of batches that ends over 4294967296";
  }
  return nullptr;
}

const char* fault_of(const std::vector<std::string>& columns) noexcept {
  if (columns.size() > kMostColumns) return "it names too many columns";
  std::size_t bytes = 0;
  for (const std::string& name : columns) bytes += name.size();
  if (bytes > kMostColumnBytes) return "its names of columns are too long";
  return std::ranges::all_of(columns, is_utf8) ? nullptr : "the name of a column isn't UTF-8";
}

const char* fault_of(const Request& request) noexcept {
  if (request.ticket.empty()) return "it has no ticket";
  if (request.batches && request.batch_statistics) return "it asks for batches and for batch statistics";
  if (request.batches) return fault_of(*request.batches);
  return request.batch_statistics ? fault_of(*request.batch_statistics) : nullptr;
}

/// Appends to the bytes of a request.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>* to) : to_(to) {}
  void number(std::uint32_t value) {
    std::array<std::byte, sizeof value> bytes{};
    store_le(bytes.data(), value);
    append(bytes);
  }
  void append(ByteSpan bytes) { to_->insert(to_->end(), bytes.begin(), bytes.end()); }
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    append(as_bytes(text));
  }
  void parameter(Kind kind, std::size_t size) {
    number(static_cast<std::uint32_t>(kind));
    number(static_cast<std::uint32_t>(size));
  }

 private:
  std::vector<std::byte>* to_;
};

/// Reads from the front of bytes. Throws ProtocolError if they end too early.
class Input {
 public:
  explicit Input(ByteSpan rest) : rest_(rest) {}
  bool empty() const noexcept { return rest_.empty(); }
  ByteSpan take(std::size_t count) {
    if (count > rest_.size()) throw ProtocolError("a request ends in the middle of its parameters");
    const ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint32_t number() { return load_le<std::uint32_t>(take(sizeof(std::uint32_t)).data()); }
  ByteSpan rest() const noexcept { return rest_; }

 private:
  ByteSpan rest_;
};

std::vector<BatchRange> read_ranges(Input from) {
  constexpr std::size_t kSize = 2 * sizeof(std::uint32_t);
  if (from.rest().size() % kSize != 0 || from.rest().size() / kSize > kMostRanges) {
    throw ProtocolError("a request has ranges of batches of " + std::to_string(from.rest().size()) + " bytes");
  }
  std::vector<BatchRange> ranges;
  while (!from.empty()) {
    const std::uint32_t first = from.number();
    ranges.push_back({first, from.number()});
  }
  return ranges;
}

std::vector<std::string> read_columns(Input from) {
  std::vector<std::string> columns;
  while (!from.empty()) {
    if (columns.size() == kMostColumns) throw ProtocolError("a request names too many columns");
    columns.emplace_back(as_text(from.take(from.number())));
  }
  return columns;
}

}  // namespace

bool begins_as_request(ByteSpan bytes) noexcept {
  return bytes.size() >= kMagic.size() && std::ranges::equal(as_text(bytes.first(kMagic.size())), kMagic);
}

std::vector<std::byte> encode_request(const Request& request) {
  const ByteSpan ticket = as_bytes(request.ticket);
  if (!request.has_parameters()) return {ticket.begin(), ticket.end()};
  if (const char* const fault = fault_of(request)) throw InvalidArgumentError(std::string("a wrong request: ") + fault);
  std::vector<std::byte> bytes;
  Writer to(&bytes);
  to.append(std::as_bytes(std::span(kMagic)));
  if (request.batches) {
    to.parameter(Kind::kBatches, request.batches->size() * 2 * sizeof(std::uint32_t));
    for (const BatchRange& range : *request.batches) {
      to.number(range.first);
      to.number(range.count);
    }
  }
  if (request.batch_statistics) {
    std::size_t size = 0;
    for (const std::string& name : *request.batch_statistics) size += sizeof(std::uint32_t) + name.size();
    to.parameter(Kind::kBatchStatistics, size);
    for (const std::string& name : *request.batch_statistics) to.text(name);
  }
  to.parameter(Kind::kEnd, 0);
  to.append(ticket);
  return bytes;
}

Request parse_request(ByteSpan bytes) {
  if (!begins_as_request(bytes)) return {.ticket = as_text(bytes)};
  Input from(bytes.subspan(kMagic.size()));
  Request request;
  for (bool ended = false; !ended;) {
    const std::uint32_t kind = from.number();
    const Input parameter(from.take(from.number()));
    switch (static_cast<Kind>(kind)) {
      case Kind::kEnd:
        if (!parameter.empty()) throw ProtocolError("the end of a request's parameters isn't empty");
        ended = true;
        break;
      case Kind::kBatches:
        if (request.batches) throw ProtocolError("a request names its batches twice");
        request.batches = read_ranges(parameter);
        break;
      case Kind::kBatchStatistics:
        if (request.batch_statistics) throw ProtocolError("a request asks for batch statistics twice");
        request.batch_statistics = read_columns(parameter);
        break;
      default:
        throw UnsupportedError("a request has a parameter of the kind " + std::to_string(kind) +
                               ", which this server doesn't know");
    }
  }
  request.ticket = as_text(from.rest());
  if (!request.has_parameters()) throw ProtocolError("a request with parameters has none");
  if (const char* const fault = fault_of(request)) throw ProtocolError(std::string("a wrong request: ") + fault);
  return request;
}

}  // namespace crossdock::dissociated
