#include "dissociated/sender.h"

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::dissociated {

Sender::Sender(std::uint64_t want_data, std::optional<std::uint64_t> free_data, PeerFeatures peer)
    : want_data_(want_data),
      free_data_(free_data),
      peer_(peer),
      leases_(peer.counted_leases ? FreeRule::kCounted : FreeRule::kAsSpecified) {
  if (free_data_ == want_data_) {
    throw InvalidArgumentError("want_data and free_data are both " + std::to_string(want_data_) +
                               "; they must differ, so that a client's messages can be distinguished");
  }
}

Sender::Action Sender::on_tagged(std::uint64_t tag, ByteSpan body, std::vector<Freed>* freed) {
  if (freeing())
    throw std::logic_error("Sender::on_tagged was called before all addresses of the previous message were taken");
  if (tag == free_data_) {
    if (body.size() % sizeof(std::uint64_t) != 0) {
      throw ProtocolError("a free_data message has " + std::to_string(body.size()) +
                          " bytes; it must hold whole addresses of 8 bytes each");
    }
    addresses_.resize(body.size() / sizeof(std::uint64_t));
    if (!body.empty()) std::memcpy(addresses_.data(), body.data(), body.size());
    n_freed_ = 0;
    free_more(freed);
    return Action::kFreed;
  }
  if (tag == want_data_) {
    if (streaming_) {
      throw ProtocolError(
          "a want_data message arrived while a stream is under way; a connection carries one stream at a time: wait "
          "for its End of Stream, or connect again");
    }
    streaming_ = true;
    next_ = 0;
    return Action::kWantData;
  }
  throw ProtocolError("a message of the client has tag " + std::to_string(tag) + "; the known tags are want_data (" +
                      std::to_string(want_data_) + ")" +
                      (free_data_ ? " and free_data (" + std::to_string(*free_data_) + ")" : " only"));
}

void Sender::free_more(std::vector<Freed>* freed) {
  const auto rest = std::span(addresses_).subspan(n_freed_);
  n_freed_ = addresses_.size();  // so that nothing is left to continue with if free() throws
  n_freed_ -= rest.size() - leases_.free(rest, freed, kStepsPerCall);
}

bool Sender::on_untagged(ByteSpan message) const {
  if (!peer_.cancel) throw ProtocolError("the client sent an untagged message; clients send tagged ones only");
  if (read_prefix(message).type != MessageType::kEndOfStream) {
    throw ProtocolError("the client sent an untagged message other than End of Stream, which cancels its stream");
  }
  return streaming_;
}

PrefixBytes Sender::end_of_stream() {
  check_streaming("end_of_stream");
  end_stream();
  return write_prefix(MessageType::kEndOfStream, next_);
}

std::vector<std::byte> Sender::error(std::string_view reason) {
  check_streaming("error");
  std::vector<std::byte> message;
  if (peer_.error_messages) {
    const PrefixBytes prefix = write_prefix(MessageType::kError, next_);
    const std::string text = bounded_utf8(reason, kMaxErrorReason);
    message.assign(prefix.begin(), prefix.end());
    const ByteSpan bytes = as_bytes(text);
    message.insert(message.end(), bytes.begin(), bytes.end());
  }
  end_stream();
  return message;
}

void Sender::fail_not_streaming(const char* what) {
  throw std::logic_error(std::string("Sender::") + what + " is called with no stream under way");
}

void Sender::end_stream() noexcept {
  streaming_ = false;
  leases_.stream_ended();
}

}  // namespace crossdock::dissociated
