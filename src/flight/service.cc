#include "flight/service.h"

#include <array>
#include <utility>

#include "core/base64.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "flight/status.h"

namespace crossdock::flight {
namespace {

constexpr std::array<std::string_view, 10> kMethods = {"Handshake", "ListFlights", "GetFlightInfo", "PollFlightInfo",
                                                       "GetSchema", "DoGet",       "DoPut",         "DoExchange",
                                                       "DoAction",  "ListActions"};
constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kBasic = "Basic ";

/// Compares in a time that depends on the lengths alone.
bool same_secret(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

/// The login in a payload that may be a BasicAuth; else an empty one.
BasicAuth login_in(ByteSpan payload) {
  try {
    return decode_basic_auth(payload);
  } catch (const ProtocolError&) {
    return {};  // another kind of login
  }
}

}  // namespace

Method method_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    if (kMethods[i] == name) return static_cast<Method>(i);
  }
  return Method::kUnknown;
}

FlightDescriptor descriptor_of(std::string_view name) {
  if (is_utf8(name)) return {.type = FlightDescriptor::Type::kPath, .path = {std::string(name)}};
  const ByteSpan bytes = as_bytes(name);
  return {.type = FlightDescriptor::Type::kCommand, .command = {bytes.begin(), bytes.end()}};
}

std::optional<std::string> name_of(const FlightDescriptor& descriptor) {
  const std::string_view command = as_text(descriptor.command);
  if (descriptor.type == FlightDescriptor::Type::kCommand) {
    return is_utf8(command) ? std::nullopt : std::optional(std::string(command));
  }
  return descriptor.path.size() == 1 ? std::optional(descriptor.path.front()) : std::nullopt;
}

std::string name_in(const FlightDescriptor& descriptor) {
  if (std::optional<std::string> name = name_of(descriptor)) return *std::move(name);
  if (descriptor.type == FlightDescriptor::Type::kCommand) {
    throw UnsupportedError(
        "this server knows tables by name, as a path of one part, and no commands, such as Flight SQL's: " +
        shown(as_text(descriptor.command), 60));
  }
  throw InvalidArgumentError("a table's name is a path of one part; this path has " +
                             std::to_string(descriptor.path.size()));
}

std::string bytes_in_ticket(ByteSpan message) {
  const Ticket ticket = decode_ticket(message);
  return std::string(as_text(ticket.ticket));
}

std::string Access::name_in(std::string_view request, bool authenticated) const {
  if (!asks()) return std::string(request);
  if (TicketKeys::looks_signed(request)) return keys->check(TicketKeys::Purpose::kRead, request);
  if (authenticated) return std::string(request);
  if (request.empty()) {
    throw UnauthenticatedError(
        "this server tells its names to those alone who have proved who they are: log in at its Flight server, or "
        "connect "
        "with the token");
  }
  throw UnauthenticatedError("this server takes signed tickets from those who haven't proved who they are, and " +
                             shown(request, 60) +
                             " is a name: ask its Flight server for a ticket, or connect with the token");
}

Service::Service(const Directory& directory, std::vector<std::string> locations, Access access,
                 OwnLocation own_location)
    : directory_(directory),
      locations_(std::move(locations)),
      access_(std::move(access)),
      own_location_(std::move(own_location)) {}

bool Service::is_token(std::string_view text) const noexcept {
  return !access_.token.empty() && same_secret(text, access_.token);
}

/// Throws UnauthenticatedError for a login of this server that is no longer valid.
bool Service::is_login(std::string_view bearer) const {
  if (!access_.login) return false;
  const Base64 decoded = from_base64(bearer);
  const std::string_view ticket = as_text(decoded.bytes);
  if (!decoded.wrong.empty() || !TicketKeys::looks_signed(ticket)) return false;
  try {
    access_.keys->check(TicketKeys::Purpose::kLogin, ticket);
  } catch (const UnauthenticatedError& error) {
    throw UnauthenticatedError(std::string("log in again; ") + error.what());
  }
  return true;
}

void Service::check_caller(std::string_view authorization, std::string_view auth_token) const {
  if (!access_.asks()) return;
  const std::string_view bearer =
      authorization.starts_with(kBearer) ? authorization.substr(kBearer.size()) : std::string_view();
  std::string why_no_login;
  for (const std::string_view given : {auth_token, bearer}) {
    try {
      if (is_token(given) || is_login(given)) return;
    } catch (const UnauthenticatedError& error) {
      why_no_login = error.what();  // the other may be valid
    }
  }
  if (!why_no_login.empty()) throw UnauthenticatedError(why_no_login);
  if (!authorization.empty() || !auth_token.empty()) throw UnauthenticatedError("the token is wrong");
  throw UnauthenticatedError(
      access_.login
          ? "this server requires a login, and the call has none: give a user name and a password as login= in Python, "
            "or in CROSSDOCK_LOGIN to the command crossdock; other clients log in with them"
          : "this server requires a token, and the call has none: give it as token= in Python, or in CROSSDOCK_TOKEN "
            "to the command crossdock; with other clients, log in with the token as the password, or send the header "
            "\"authorization: Bearer <token>\"");
}

std::string Service::bearer_for(const BasicAuth& login) const {
  if (!access_.asks()) return {};
  if (is_token(login.password)) return access_.token;
  if (!access_.login) throw UnauthenticatedError("the password isn't this server's token");
  if (login.username.empty() && login.password.empty()) {
    throw UnauthenticatedError("the call has no user name and no password");
  }
  if (!access_.login(login.username, login.password)) {
    throw UnauthenticatedError("the user name or the password is wrong");
  }
  const std::string ticket = access_.keys->sign(TicketKeys::Purpose::kLogin, login.username, access_.login_lifetime_s);
  return to_base64(as_bytes(ticket));
}

Service::Login Service::log_in(std::string_view authorization, ByteSpan message) const {
  if (authorization.starts_with(kBasic)) {
    const Base64 decoded = from_base64(authorization.substr(kBasic.size()));
    const std::string_view login = as_text(decoded.bytes);
    const std::size_t colon = login.find(':');
    if (!decoded.wrong.empty() || colon == std::string_view::npos) {
      throw ProtocolError("the header \"authorization: Basic\" has no user name and password in base64");
    }
    return {
        {},
        std::string(kBearer) + bearer_for({std::string(login.substr(0, colon)), std::string(login.substr(colon + 1))})};
  }
  const Handshake handshake = decode_handshake(message);
  const std::string_view payload = as_text(handshake.payload);
  const std::string bearer = is_token(payload) ? access_.token : bearer_for(login_in(handshake.payload));
  const ByteSpan answer = as_bytes(bearer);
  return {encode(Handshake{.payload = {answer.begin(), answer.end()}}), {}};
}

FlightInfo Service::info_of(Flight flight) const {
  const std::string signed_name =
      access_.asks() ? access_.keys->sign(TicketKeys::Purpose::kRead, flight.name, access_.ticket_lifetime_s)
                     : flight.name;
  const ByteSpan ticket = as_bytes(signed_name);
  FlightEndpoint endpoint{.ticket = {{ticket.begin(), ticket.end()}}, .locations = locations_};
  if (own_location_) {
    if (std::string own = own_location_(flight.name); !own.empty()) endpoint.locations.push_back(std::move(own));
  }
  endpoint.locations.emplace_back(kReuseConnection);
  if (access_.asks()) endpoint.expires = Timestamp{access_.keys->now() + access_.ticket_lifetime_s, 0};
  return {.schema = encapsulated(flight.schema),
          .descriptor = descriptor_of(flight.name),
          .endpoints = {std::move(endpoint)},
          .records = flight.rows,
          .bytes = flight.bytes,
          .ordered = true};
}

FlightInfo Service::find(ByteSpan descriptor) const {
  return info_of(directory_.flight(name_in(decode_descriptor(descriptor))));
}

std::vector<Bytes> Service::answer(Method method, ByteSpan request) const {
  std::vector<Bytes> answers;
  switch (method) {
    case Method::kListFlights:
      if (!decode_criteria(request).expression.empty()) {
        throw UnsupportedError("this server lists all of its tables: leave the criteria out");
      }
      for (Flight& flight : directory_.flights()) answers.push_back(encode(info_of(std::move(flight))));
      break;
    case Method::kGetFlightInfo: answers.push_back(encode(find(request))); break;
    case Method::kPollFlightInfo:
      // What is published is there: the first answer is the last.
      answers.push_back(encode(PollInfo{.info = find(request), .progress = 1.0}));
      break;
    case Method::kGetSchema: {
      Flight flight = directory_.flight(name_in(decode_descriptor(request)));
      if (flight.schema.empty()) {
        throw UnsupportedError("the schema of " + shown(flight.name) +
                               " isn't known before it is read: it is made anew for each consumer");
      }
      answers.push_back(encode(SchemaResult{encapsulated(flight.schema)}));
      break;
    }
    case Method::kDoAction: {
      const Action action = decode_action(request);
      throw UnsupportedError("this server has no action " + shown(action.type));
    }
    case Method::kListActions: break;
    default: throw UnsupportedError("this server doesn't have this method of Flight");
  }
  return answers;
}

}  // namespace crossdock::flight
