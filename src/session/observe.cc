#include "session/observe.h"

#include <algorithm>
#include <cstdio>

#include "core/amounts.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

using dissociated::BodyType;
using dissociated::MessageType;

constexpr std::size_t kAddress = sizeof(std::uint64_t);

void decode_free_data(ByteSpan body, WireMessage* out) {
  if (body.size() % kAddress != 0) {
    throw ProtocolError("a free_data body of " + std::to_string(body.size()) + " bytes, which is not a multiple of 8");
  }
  out->n_buffers = body.size() / kAddress;
  for (std::size_t i = 0; i < std::min(out->n_buffers, WireMessage::kShownBuffers); ++i) {
    out->buffers.push_back({load_le<std::uint64_t>(body.data() + i * kAddress), 0});
  }
}

void decode_body(const WireEvent& event, WireMessage* out) {
  const dissociated::Tag tag = dissociated::read_tag(event.tag);
  out->kind = WireKind::kBody;
  out->sequence = tag.sequence;
  out->body_type = tag.type;
  if (tag.type != BodyType::kRemote) return;
  dissociated::read_remote_body(event.bytes, &out->buffers);
  out->n_buffers = out->buffers.size();
  for (const dissociated::RemoteBuffer& buffer : out->buffers) out->total += buffer.length;
  out->buffers.resize(std::min(out->n_buffers, WireMessage::kShownBuffers));
}

void decode_tagged(const WireEvent& event, WireMessage* out) {
  if (event.direction == Direction::kReceived) {
    decode_body(event, out);
  } else if (event.tag == event.agreement.want_data) {
    out->kind = WireKind::kWantData;
    out->text = as_text(event.bytes);
  } else if (event.tag == event.agreement.free_data) {
    out->kind = WireKind::kFreeData;
    decode_free_data(event.bytes, out);
  } else {
    throw ProtocolError("a tag that is neither want_data nor free_data");
  }
}

void decode_untagged(const WireEvent& event, WireMessage* out) {
  const dissociated::Prefix prefix = dissociated::read_prefix(event.bytes);
  const ByteSpan rest = event.bytes.subspan(dissociated::kPrefixSize);
  out->sequence = prefix.sequence;
  switch (prefix.type) {
    case MessageType::kEndOfStream:
      out->kind = event.direction == Direction::kSent ? WireKind::kCancel : WireKind::kEndOfStream;
      break;
    case MessageType::kError:
      out->kind = WireKind::kError;
      out->text = as_text(rest);
      break;
    case MessageType::kMetadata:
      out->kind = WireKind::kMetadata;
      try {
        out->message = ipc::summarize(rest, {}, "the metadata");
      } catch (const Error& error) {
        out->text = error.what();
      }
      break;
  }
}

std::string hex(std::uint64_t value) {
  char text[sizeof "0x0123456789abcdef"];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string text_of_summary(const ipc::MessageSummary& message) {
  std::string out(ipc::kind_name(message.kind));
  switch (message.kind) {
    case ipc::MessageKind::kSchema: out += ": " + counted(message.n_fields, "field"); break;
    case ipc::MessageKind::kDictionaryBatch:
      out += ' ' + std::to_string(message.dictionary_id) + (message.is_delta ? " (delta)" : "");
      [[fallthrough]];
    case ipc::MessageKind::kRecordBatch:
      out += ": " + counted(message.num_rows, "row") + ", " + counted(message.n_nodes, "node") + ", " +
             counted(message.n_buffers, "buffer") + ", body " + counted(message.body_length, "byte");
      if (message.codec != ipc::Codec::kNone) {
        out += ", " + std::string(ipc::compression_name(message.codec));
      }
      break;
    case ipc::MessageKind::kTensor:
    case ipc::MessageKind::kSparseTensor: out += ": body " + counted(message.body_length, "byte"); break;
  }
  out += ", V" + std::to_string(message.version);
  if (message.n_metadata > 0) out += ", custom metadata " + std::to_string(message.n_metadata);
  return out;
}

std::string text_of_addresses(const WireMessage& message, bool with_lengths) {
  std::string out;
  for (const dissociated::RemoteBuffer& buffer : message.buffers) {
    out += (out.empty() ? "" : ", ") + hex(buffer.address);
    if (with_lengths) out += '+' + std::to_string(buffer.length);
  }
  if (message.n_buffers > message.buffers.size()) {
    out += " and " + std::to_string(message.n_buffers - message.buffers.size()) + " more";
  }
  return out;
}

std::string text_of_body(const WireMessage& message) {
  if (message.body_type == BodyType::kPacked) return "type 0 (bytes): " + counted(message.size, "byte");
  std::string out =
      "type 1 (addresses): total " + std::to_string(message.total) + ", nbuf " + std::to_string(message.n_buffers);
  if (message.n_buffers > 0) out += ": " + text_of_addresses(message, true);
  return out;
}

}  // namespace

const char* wire_kind_name(WireKind kind) noexcept {
  switch (kind) {
    case WireKind::kWantData: return "want_data";
    case WireKind::kFreeData: return "free_data";
    case WireKind::kMetadata: return "metadata";
    case WireKind::kBody: return "body";
    case WireKind::kEndOfStream: return "End of Stream";
    case WireKind::kError: return "error";
    case WireKind::kCancel: return "cancel";
    case WireKind::kBad: return "malformed";
  }
  return "unknown";
}

WireMessage decode_wire(const WireEvent& event) {
  WireMessage out;
  out.direction = event.direction;
  out.tagged = event.tagged;
  out.role = event.agreement.role;
  out.size = event.bytes.size();
  out.tag = event.tag;
  try {
    if (event.tagged) {
      decode_tagged(event, &out);
    } else {
      decode_untagged(event, &out);
    }
  } catch (const Error& error) {
    out.kind = WireKind::kBad;
    out.text = error.what();
    out.buffers.clear();
  }
  return out;
}

std::string to_text(const WireMessage& message) {
  std::string out = message.direction == Direction::kSent ? "-> " : "<- ";
  if (message.role != ChannelRole::kBoth) {
    out += message.role == ChannelRole::kMetadata ? "metadata connection  " : "data connection      ";
  }
  out += message.tagged ? "tagged    " : "untagged  ";
  const bool is_numbered = message.kind != WireKind::kWantData && message.kind != WireKind::kFreeData &&
                           message.kind != WireKind::kBad && message.kind != WireKind::kCancel;
  if (!message.tagged && message.kind != WireKind::kBad) {
    const char* const type = message.kind == WireKind::kMetadata ? "1" : message.kind == WireKind::kError ? "255" : "0";
    out += "type " + std::string(type) + "  ";
  }
  if (is_numbered) out += "number " + std::to_string(message.sequence) + "  ";
  out += wire_kind_name(message.kind);
  switch (message.kind) {
    case WireKind::kWantData: out += "  ticket " + shown(message.text); break;
    case WireKind::kFreeData:
      out += "  " + counted(message.n_buffers, "address", "addresses") + ": " + text_of_addresses(message, false);
      break;
    case WireKind::kMetadata:
      out += "  " + (message.message ? text_of_summary(*message.message) : "malformed: " + printable(message.text));
      break;
    case WireKind::kBody: out += "  " + text_of_body(message); break;
    case WireKind::kError: out += "  " + printable(message.text); break;
    case WireKind::kBad:
      if (message.tagged) out += "  tag " + hex(message.tag);
      out += "  " + counted(message.size, "byte") + ": " + printable(message.text);
      break;
    case WireKind::kEndOfStream:
    case WireKind::kCancel: break;
  }
  return out;
}

}  // namespace crossdock::session
