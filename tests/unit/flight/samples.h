#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flight/messages.h"

namespace crossdock::flight {

inline Bytes raw(std::string_view text) {
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// A message with a value in each field, its bytes, and a function that decodes it and encodes that again.
struct Sample {
  std::string name;
  Bytes bytes;
  std::function<Bytes(ByteSpan)> again;
};

inline std::vector<Sample> samples() {
  const FlightDescriptor path{.type = FlightDescriptor::Type::kPath, .path = {"flights", "", "2026"}};
  const FlightDescriptor command{.type = FlightDescriptor::Type::kCommand, .command = raw("SELECT 1")};
  const FlightEndpoint endpoint{.ticket = {raw("a\0b")},
                                .locations = {"shm:/run/x?want_data=1", kReuseConnection},
                                .expires = Timestamp{-5, 999'999'999},
                                .app_metadata = raw("m")};
  const FlightInfo info{.schema = raw("schema"),
                        .descriptor = path,
                        .endpoints = {endpoint, {}},
                        .records = -1,
                        .bytes = 1ll << 40,
                        .ordered = true,
                        .app_metadata = raw("x")};
  return {
      {"descriptor", encode(path), [](ByteSpan b) { return encode(decode_descriptor(b)); }},
      {"command", encode(command), [](ByteSpan b) { return encode(decode_descriptor(b)); }},
      {"ticket", encode(Ticket{raw("flights")}), [](ByteSpan b) { return encode(decode_ticket(b)); }},
      {"endpoint", encode(endpoint), [](ByteSpan b) { return encode(decode_endpoint(b)); }},
      {"info", encode(info), [](ByteSpan b) { return encode(decode_info(b)); }},
      {"poll", encode(PollInfo{info, path, 0.5, Timestamp{1, 2}}),
       [](ByteSpan b) { return encode(decode_poll_info(b)); }},
      {"schema", encode(SchemaResult{raw("s")}), [](ByteSpan b) { return encode(decode_schema_result(b)); }},
      {"criteria", encode(Criteria{raw("c")}), [](ByteSpan b) { return encode(decode_criteria(b)); }},
      {"action", encode(Action{"type", raw("body")}), [](ByteSpan b) { return encode(decode_action(b)); }},
      {"action_type", encode(ActionType{"type", "what"}), [](ByteSpan b) { return encode(decode_action_type(b)); }},
      {"offer", encode(Offer{std::string("n\xff\0", 3), true}), [](ByteSpan b) { return encode(decode_offer(b)); }},
      {"fetch_offer", encode(FetchOffer{"ticket", {"shm:/x?want_data=1", "tcp://h:1"}, "secret"}),
       [](ByteSpan b) { return encode(decode_fetch_offer(b)); }},
      {"result", encode(Result{raw("body")}), [](ByteSpan b) { return encode(decode_result(b)); }},
      {"handshake", encode(Handshake{7, raw("payload")}), [](ByteSpan b) { return encode(decode_handshake(b)); }},
      {"login", encode(BasicAuth{"user", "secret"}), [](ByteSpan b) { return encode(decode_basic_auth(b)); }},
      {"put_result", encode(PutResult{raw("m")}), [](ByteSpan b) { return encode(decode_put_result(b)); }},
  };
}

}  // namespace crossdock::flight
