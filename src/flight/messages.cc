#include "flight/messages.h"

#include <cstring>
#include <limits>
#include <utility>

#include "crossdock/core/error.h"
#include "flight/protobuf.h"

namespace crossdock::flight {
namespace {

constexpr std::uint32_t kContinuation = 0xFFFFFFFF;
constexpr std::uint32_t kDataBody = 1000;

Bytes copy(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

template <typename List>
void check_room(const List& list, const char* where) {
  if (list.size() < kMostRepeated) return;
  throw ProtocolError(std::string(where) + " repeats a field over " + std::to_string(kMostRepeated) + " times");
}

/// Calls `take` with each field of a message.
template <typename Take>
void each_field(ByteSpan message, const char* where, Take take) {
  ProtoReader reader(message, where);
  while (const std::optional<ProtoField> field = reader.next()) take(reader, *field);
}

/// Reads a message of one field of bytes, as several of Flight's are.
Bytes read_bytes(ByteSpan message, std::uint32_t number, const char* where) {
  Bytes value;
  each_field(message, where, [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == number) value = copy(reader.bytes(field));
  });
  return value;
}

ProtoWriter write(const FlightDescriptor& descriptor) {
  ProtoWriter out;
  out.integer(1, static_cast<std::uint64_t>(descriptor.type)).bytes(2, descriptor.command);
  for (const std::string& part : descriptor.path) {
    out.element(3, as_bytes(part));
  }
  return out;
}

ProtoWriter write(const Timestamp& time) {
  ProtoWriter out;
  out.integer(1, static_cast<std::uint64_t>(time.seconds));
  out.integer(2, static_cast<std::uint64_t>(std::int64_t{time.nanoseconds}));
  return out;
}

Timestamp read_timestamp(ByteSpan message) {
  Timestamp time;
  each_field(message, "a Timestamp", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) time.seconds = static_cast<std::int64_t>(reader.integer(field));
    if (field.number == 2) time.nanoseconds = static_cast<std::int32_t>(reader.integer(field));
  });
  return time;
}

ProtoWriter write(const Ticket& ticket) {
  ProtoWriter out;
  out.bytes(1, ticket.ticket);
  return out;
}

ProtoWriter write(const FlightEndpoint& endpoint) {
  ProtoWriter out;
  out.nested(1, write(endpoint.ticket));
  for (const std::string& uri : endpoint.locations) {
    ProtoWriter location;
    location.text(1, uri);
    out.nested(2, location);
  }
  if (endpoint.expires) out.nested(3, write(*endpoint.expires));
  out.bytes(4, endpoint.app_metadata);
  return out;
}

std::string read_location(ByteSpan message) {
  std::string uri;
  each_field(message, "a Location", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) uri = reader.text(field);
  });
  return uri;
}

ProtoWriter write(const FlightInfo& info) {
  ProtoWriter out;
  out.bytes(1, info.schema);
  if (info.descriptor) out.nested(2, write(*info.descriptor));
  for (const FlightEndpoint& endpoint : info.endpoints) out.nested(3, write(endpoint));
  out.integer(4, static_cast<std::uint64_t>(info.records)).integer(5, static_cast<std::uint64_t>(info.bytes));
  out.integer(6, info.ordered ? 1 : 0).bytes(7, info.app_metadata);
  return out;
}

}  // namespace

Bytes encode(const FlightDescriptor& descriptor) { return write(descriptor).take(); }

FlightDescriptor decode_descriptor(ByteSpan message) {
  constexpr const char* kWhere = "a FlightDescriptor";
  FlightDescriptor out;
  each_field(message, kWhere, [&](const ProtoReader& reader, const ProtoField& field) {
    switch (field.number) {
      case 1: {
        const std::uint64_t type = reader.integer(field);
        if (type > 2) throw ProtocolError(std::string(kWhere) + " has a type of " + std::to_string(type));
        out.type = static_cast<FlightDescriptor::Type>(type);
        break;
      }
      case 2: out.command = copy(reader.bytes(field)); break;
      case 3:
        check_room(out.path, kWhere);
        out.path.emplace_back(reader.text(field));
        break;
      default: break;
    }
  });
  return out;
}

Bytes encode(const Ticket& ticket) { return write(ticket).take(); }
Ticket decode_ticket(ByteSpan message) { return {read_bytes(message, 1, "a Ticket")}; }

Bytes encode(const FlightEndpoint& endpoint) { return write(endpoint).take(); }

FlightEndpoint decode_endpoint(ByteSpan message) {
  constexpr const char* kWhere = "a FlightEndpoint";
  FlightEndpoint out;
  each_field(message, kWhere, [&](const ProtoReader& reader, const ProtoField& field) {
    switch (field.number) {
      case 1: out.ticket = decode_ticket(reader.bytes(field)); break;
      case 2:
        check_room(out.locations, kWhere);
        out.locations.push_back(read_location(reader.bytes(field)));
        break;
      case 3: out.expires = read_timestamp(reader.bytes(field)); break;
      case 4: out.app_metadata = copy(reader.bytes(field)); break;
      default: break;
    }
  });
  return out;
}

Bytes encode(const FlightInfo& info) { return write(info).take(); }

FlightInfo decode_info(ByteSpan message) {
  constexpr const char* kWhere = "a FlightInfo";
  FlightInfo out{.records = 0, .bytes = 0};  // protobuf's defaults
  each_field(message, kWhere, [&](const ProtoReader& reader, const ProtoField& field) {
    switch (field.number) {
      case 1: out.schema = copy(reader.bytes(field)); break;
      case 2: out.descriptor = decode_descriptor(reader.bytes(field)); break;
      case 3:
        check_room(out.endpoints, kWhere);
        out.endpoints.push_back(decode_endpoint(reader.bytes(field)));
        break;
      case 4: out.records = static_cast<std::int64_t>(reader.integer(field)); break;
      case 5: out.bytes = static_cast<std::int64_t>(reader.integer(field)); break;
      case 6: out.ordered = reader.integer(field) != 0; break;
      case 7: out.app_metadata = copy(reader.bytes(field)); break;
      default: break;
    }
  });
  return out;
}

Bytes encode(const PollInfo& info) {
  ProtoWriter out;
  if (info.info) out.nested(1, write(*info.info));
  if (info.descriptor) out.nested(2, write(*info.descriptor));
  if (info.progress) out.real(3, *info.progress);
  if (info.expires) out.nested(4, write(*info.expires));
  return out.take();
}

PollInfo decode_poll_info(ByteSpan message) {
  PollInfo out;
  each_field(message, "a PollInfo", [&](const ProtoReader& reader, const ProtoField& field) {
    switch (field.number) {
      case 1: out.info = decode_info(reader.bytes(field)); break;
      case 2: out.descriptor = decode_descriptor(reader.bytes(field)); break;
      case 3: out.progress = reader.real(field); break;
      case 4: out.expires = read_timestamp(reader.bytes(field)); break;
      default: break;
    }
  });
  return out;
}

Bytes encode(const SchemaResult& result) { return ProtoWriter().bytes(1, result.schema).take(); }
SchemaResult decode_schema_result(ByteSpan message) { return {read_bytes(message, 1, "a SchemaResult")}; }

Bytes encode(const Criteria& criteria) { return ProtoWriter().bytes(1, criteria.expression).take(); }
Criteria decode_criteria(ByteSpan message) { return {read_bytes(message, 1, "a Criteria")}; }

Bytes encode(const Action& action) { return ProtoWriter().text(1, action.type).bytes(2, action.body).take(); }
Action decode_action(ByteSpan message) {
  Action out;
  each_field(message, "an Action", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) out.type = reader.text(field);
    if (field.number == 2) out.body = copy(reader.bytes(field));
  });
  return out;
}

Bytes encode(const ActionType& type) { return ProtoWriter().text(1, type.type).text(2, type.description).take(); }
ActionType decode_action_type(ByteSpan message) {
  ActionType out;
  each_field(message, "an ActionType", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) out.type = reader.text(field);
    if (field.number == 2) out.description = reader.text(field);
  });
  return out;
}

Bytes encode(const Result& result) { return ProtoWriter().bytes(1, result.body).take(); }
Result decode_result(ByteSpan message) { return {read_bytes(message, 1, "a Result")}; }

Bytes encode(const Handshake& handshake) {
  return ProtoWriter().integer(1, handshake.protocol_version).bytes(2, handshake.payload).take();
}
Handshake decode_handshake(ByteSpan message) {
  Handshake out;
  each_field(message, "a handshake of Flight", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) out.protocol_version = reader.integer(field);
    if (field.number == 2) out.payload = copy(reader.bytes(field));
  });
  return out;
}

Bytes encode(const Offer& offer) { return ProtoWriter().text(1, offer.name).integer(2, offer.only_new ? 1 : 0).take(); }
Offer decode_offer(ByteSpan message) {
  Offer out;
  each_field(message, "an Offer", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) out.name = as_text(reader.bytes(field));
    if (field.number == 2) out.only_new = reader.integer(field) != 0;
  });
  return out;
}

Bytes encode(const FetchOffer& request) {
  ProtoWriter writer;
  writer.text(1, request.ticket);
  for (const std::string& location : request.locations) writer.element(2, as_bytes(location));
  return writer.text(3, request.token).take();
}
FetchOffer decode_fetch_offer(ByteSpan message) {
  constexpr const char* kWhere = "a FetchOffer";
  FetchOffer out;
  each_field(message, kWhere, [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 1) out.ticket = as_text(reader.bytes(field));
    if (field.number == 2) {
      check_room(out.locations, kWhere);
      out.locations.emplace_back(reader.text(field));
    }
    if (field.number == 3) out.token = reader.text(field);
  });
  return out;
}

Bytes encode(const BasicAuth& login) { return ProtoWriter().text(2, login.username).text(3, login.password).take(); }
BasicAuth decode_basic_auth(ByteSpan message) {
  BasicAuth out;
  each_field(message, "a BasicAuth", [&](const ProtoReader& reader, const ProtoField& field) {
    if (field.number == 2) out.username = reader.text(field);
    if (field.number == 3) out.password = reader.text(field);
  });
  return out;
}

Bytes encode(const PutResult& result) { return ProtoWriter().bytes(1, result.app_metadata).take(); }
PutResult decode_put_result(ByteSpan message) { return {read_bytes(message, 1, "a PutResult")}; }

FlightData decode_data(ByteSpan message) {
  FlightData out;
  each_field(message, "a FlightData", [&](const ProtoReader& reader, const ProtoField& field) {
    switch (field.number) {
      case 1: out.descriptor = decode_descriptor(reader.bytes(field)); break;
      case 2: out.header = reader.bytes(field); break;
      case 3: out.app_metadata = reader.bytes(field); break;
      case kDataBody: out.body = reader.bytes(field); break;
      default: break;
    }
  });
  return out;
}

Bytes encode_data_head(ByteSpan header, std::uint64_t body_size, const FlightDescriptor* descriptor,
                       std::string_view app_metadata) {
  ProtoWriter out;
  if (descriptor != nullptr) out.nested(1, write(*descriptor));
  out.bytes(2, header).text(3, app_metadata);
  if (body_size > 0) out.bytes_follow(kDataBody, body_size);
  return out.take();
}

Bytes encapsulated(ByteSpan ipc_message) {
  if (ipc_message.empty()) return {};
  const std::uint64_t padded = align_up(ipc_message.size(), 8);
  if (padded > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgumentError("a schema of " + std::to_string(ipc_message.size()) + " bytes is too long for Flight");
  }
  Bytes out(8 + padded);
  store_le(out.data(), kContinuation);
  store_le(out.data() + 4, static_cast<std::uint32_t>(padded));
  std::memcpy(out.data() + 8, ipc_message.data(), ipc_message.size());
  return out;
}

ByteSpan decapsulated(ByteSpan message, const char* where) {
  const auto fail = [&](const char* what) { throw ProtocolError(std::string(where) + " " + what); };
  // Before Arrow 0.15 there was no continuation mark.
  const std::size_t mark = message.size() >= 4 && load_le<std::uint32_t>(message.data()) == kContinuation ? 4 : 0;
  if (message.size() < mark + 4) fail("is no IPC message: it is cut");
  const std::uint32_t length = load_le<std::uint32_t>(message.data() + mark);
  message = message.subspan(mark + 4);
  if (length == 0) fail("has an empty IPC message");
  if (length > message.size()) fail("is no IPC message: it is cut");
  return message.first(length);
}

}  // namespace crossdock::flight
