#include <array>
#include <string_view>

#include "flight/data_parts.h"
#include "flight/messages.h"
#include "flight/service.h"
#include "fuzz.h"

namespace {

using namespace crossdock;

/// A message that is read can be written, and is the same when it is read again.
template <typename Message>
void check(ByteSpan bytes, Message (*decode)(ByteSpan)) {
  Message message;
  try {
    message = decode(bytes);
  } catch (const ProtocolError&) {
    return;
  }
  fuzz::require(decode(flight::encode(message)) == message);
}

/// A message in parts is the same as in one piece, except that it may have fewer fields.
void check_parts(ByteSpan bytes, const flight::FlightData& whole) {
  const std::size_t cut = bytes.size() / 3;
  const std::array<ByteSpan, 2> parts = {bytes.first(cut), bytes.subspan(cut)};
  flight::DataParts found;
  try {
    found = flight::read_data(parts);
  } catch (const ProtocolError& error) {
    return fuzz::require(std::string_view(error.what()).find("over 64 fields") != std::string_view::npos);
  }
  fuzz::require(as_text(found.header) == as_text(whole.header) && found.descriptor == whole.descriptor);
  fuzz::require(found.body_at + found.body_size <= bytes.size() || found.body_size == 0);
  flight::Bytes body(found.body_size);
  flight::copy_out(parts, found.body_at, found.body_size, body.data());
  fuzz::require(as_text(body) == as_text(whole.body));
}

}  // namespace

/// The first byte names the message.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(fuzz::bytes(data, size));
  const auto kind = input.number<std::uint8_t>();
  const ByteSpan bytes = input.rest();
  switch (kind % 17) {
    case 0: check(bytes, flight::decode_descriptor); break;
    case 1: check(bytes, flight::decode_ticket); break;
    case 2: check(bytes, flight::decode_endpoint); break;
    case 3: check(bytes, flight::decode_info); break;
    case 4: check(bytes, flight::decode_schema_result); break;
    case 5: check(bytes, flight::decode_criteria); break;
    case 6: check(bytes, flight::decode_action); break;
    case 7: check(bytes, flight::decode_action_type); break;
    case 8: check(bytes, flight::decode_result); break;
    case 9: check(bytes, flight::decode_handshake); break;
    case 10: check(bytes, flight::decode_basic_auth); break;
    case 11: check(bytes, flight::decode_put_result); break;
    case 12:
      try {
        const flight::PollInfo info = flight::decode_poll_info(bytes);
        // A progress that isn't a number isn't equal to itself.
        if (!info.progress || *info.progress == *info.progress) check(bytes, flight::decode_poll_info);
      } catch (const ProtocolError&) {
      }
      break;
    case 13:
      try {
        const flight::FlightData found = flight::decode_data(bytes);
        fuzz::require(found.header.size() <= bytes.size() && found.body.size() <= bytes.size());
        check_parts(bytes, found);
      } catch (const ProtocolError&) {
      }
      break;
    case 15: check(bytes, flight::decode_offer); break;
    case 16: check(bytes, flight::decode_fetch_offer); break;
    default: try { fuzz::require(flight::decapsulated(bytes, "a schema").size() <= bytes.size());
      } catch (const ProtocolError&) {
      }
  }
  return 0;
}
