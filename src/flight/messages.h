#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"

/// Flight's messages (Apache Arrow, Flight.proto; field numbers are that file's). Each has encode(), and a function
/// that decodes it, which throws ProtocolError for bytes that are no such message. Fields that aren't known are
/// skipped, and of a field that may be there once the last one counts, as protobuf says. All are plain values, and own
/// their bytes where nothing else is said.
namespace crossdock::flight {

using Bytes = std::vector<std::byte>;

/// The most of any repeated field that is accepted; more is a ProtocolError.
inline constexpr std::size_t kMostRepeated = 65536;

/// What a call is about: a name, as the parts of a path, or a command, whose bytes the server knows.
struct FlightDescriptor {
  enum class Type : std::uint8_t { kUnknown = 0, kPath = 1, kCommand = 2 };
  Type type = Type::kUnknown;
  Bytes command{};
  std::vector<std::string> path{};
  bool operator==(const FlightDescriptor&) const = default;
};
Bytes encode(const FlightDescriptor& descriptor);
FlightDescriptor decode_descriptor(ByteSpan message);

struct Ticket {
  Bytes ticket;
  bool operator==(const Ticket&) const = default;
};
Bytes encode(const Ticket& ticket);
Ticket decode_ticket(ByteSpan message);

/// google.protobuf.Timestamp: since 1970, UTC.
struct Timestamp {
  std::int64_t seconds = 0;
  std::int32_t nanoseconds = 0;
  bool operator==(const Timestamp&) const = default;
};

struct FlightEndpoint {
  Ticket ticket{};
  std::vector<std::string> locations{};  ///< URIs; empty: the server that was asked.
  std::optional<Timestamp> expires{};
  Bytes app_metadata{};
  bool operator==(const FlightEndpoint&) const = default;
};
Bytes encode(const FlightEndpoint& endpoint);
FlightEndpoint decode_endpoint(ByteSpan message);

/// The location that means "the connection that was asked": for clients that know no other one.
inline constexpr const char* kReuseConnection = "arrow-flight-reuse-connection://?";

struct FlightInfo {
  Bytes schema{};  ///< See encapsulated(); empty: not known yet.
  std::optional<FlightDescriptor> descriptor{};
  std::vector<FlightEndpoint> endpoints{};
  std::int64_t records = -1;  ///< -1: not known.
  std::int64_t bytes = -1;    ///< -1: not known.
  bool ordered = false;
  Bytes app_metadata{};
  bool operator==(const FlightInfo&) const = default;
};
Bytes encode(const FlightInfo& info);
FlightInfo decode_info(ByteSpan message);

struct PollInfo {
  std::optional<FlightInfo> info{};
  std::optional<FlightDescriptor> descriptor{};  ///< Nothing: the query is complete.
  std::optional<double> progress{};              ///< 0 to 1.
  std::optional<Timestamp> expires{};
  bool operator==(const PollInfo&) const = default;
};
Bytes encode(const PollInfo& info);
PollInfo decode_poll_info(ByteSpan message);

struct SchemaResult {
  Bytes schema{};  ///< See encapsulated().
  bool operator==(const SchemaResult&) const = default;
};
Bytes encode(const SchemaResult& result);
SchemaResult decode_schema_result(ByteSpan message);

struct Criteria {
  Bytes expression{};
  bool operator==(const Criteria&) const = default;
};
Bytes encode(const Criteria& criteria);
Criteria decode_criteria(ByteSpan message);

struct Action {
  std::string type{};
  Bytes body{};
  bool operator==(const Action&) const = default;
};
Bytes encode(const Action& action);
Action decode_action(ByteSpan message);

/// The bodies of our own actions, by which a server fetches a table from a client over the data plane
/// (docs/how-to/flight.md, "Offering tables").
inline constexpr std::string_view kOfferAction = "crossdock.offer";
inline constexpr std::string_view kFetchAction = "crossdock.fetch";
struct Offer {
  std::string name{};  ///< Of the table; any bytes.
  bool only_new = false;
  bool operator==(const Offer&) const = default;
};
Bytes encode(const Offer& offer);
Offer decode_offer(ByteSpan message);

struct FetchOffer {
  std::string ticket{};  ///< The body of the answer to the offer.
  std::vector<std::string> locations{};
  std::string token{};  ///< That the client's listener asks for; empty: none.
  bool operator==(const FetchOffer&) const = default;
};
Bytes encode(const FetchOffer& request);
FetchOffer decode_fetch_offer(ByteSpan message);

struct ActionType {
  std::string type{};
  std::string description{};
  bool operator==(const ActionType&) const = default;
};
Bytes encode(const ActionType& type);
ActionType decode_action_type(ByteSpan message);

/// The answer to an action.
struct Result {
  Bytes body{};
  bool operator==(const Result&) const = default;
};
Bytes encode(const Result& result);
Result decode_result(ByteSpan message);

/// HandshakeRequest and HandshakeResponse, which have the same fields.
struct Handshake {
  std::uint64_t protocol_version = 0;
  Bytes payload{};
  bool operator==(const Handshake&) const = default;
};
Bytes encode(const Handshake& handshake);
Handshake decode_handshake(ByteSpan message);

/// The payload of a Handshake by user name and password.
struct BasicAuth {
  std::string username{};
  std::string password{};
  bool operator==(const BasicAuth&) const = default;
};
Bytes encode(const BasicAuth& login);
BasicAuth decode_basic_auth(ByteSpan message);

struct PutResult {
  Bytes app_metadata{};
  bool operator==(const PutResult&) const = default;
};
Bytes encode(const PutResult& result);
PutResult decode_put_result(ByteSpan message);

/// One message of a stream. Views the bytes that it was decoded from.
struct FlightData {
  std::optional<FlightDescriptor> descriptor{};
  ByteSpan header{};  ///< An IPC Message, without the length before it.
  ByteSpan app_metadata{};
  ByteSpan body{};
};
FlightData decode_data(ByteSpan message);
/// Returns the beginning of a FlightData message, up to where its body's bytes follow.
Bytes encode_data_head(ByteSpan header, std::uint64_t body_size, const FlightDescriptor* descriptor = nullptr,
                       std::string_view app_metadata = {});

/// Returns an IPC message as SchemaResult and FlightInfo have it: with the continuation mark and its length before it,
/// padded to 8 bytes (Arrow columnar format, "Encapsulated message format"). Empty for an empty one.
Bytes encapsulated(ByteSpan ipc_message);
/// Returns the IPC message in it. Throws ProtocolError, which begins with `where`, if it is none or is cut.
ByteSpan decapsulated(ByteSpan message, const char* where);

}  // namespace crossdock::flight
