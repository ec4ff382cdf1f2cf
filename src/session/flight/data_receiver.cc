#include "session/flight/data_receiver.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "flight/data_parts.h"
#include "ipc/metadata.h"

namespace crossdock::session {

using dissociated::MessageType;

DataReceiver::DataReceiver() : pool_(transport::make_body_pool()), memory_(pool_) {}

void DataReceiver::receive_into(std::shared_ptr<transport::BodyMemory> memory) {
  memory_ = memory ? std::move(memory) : pool_;
}

// Whether a body belongs to the message, also one without bytes. The protocol's receiver checks the metadata itself.
bool DataReceiver::has_body(ByteSpan header) {
  if (std::ranges::equal(header, last_header_)) return true;
  const bool has = ipc::Message::parse(header, {}, "a message of Flight's").has_body();
  if (has) last_header_.assign(header.begin(), header.end());
  return has;
}

transport::Incoming DataReceiver::message(MessageType type, ByteSpan content) {
  const dissociated::PrefixBytes prefix = dissociated::write_prefix(type, sequence_);
  current_.assign(prefix.begin(), prefix.end());
  current_.insert(current_.end(), content.begin(), content.end());
  return {.tagged = false, .tag = 0, .bytes = current_};
}

transport::Incoming DataReceiver::end_of_stream() { return message(MessageType::kEndOfStream, {}); }

transport::Incoming DataReceiver::error(std::string_view text) {
  const std::string bounded = bounded_utf8(text, dissociated::kMaxErrorReason);
  return message(MessageType::kError, as_bytes(bounded));
}

std::optional<transport::Incoming> DataReceiver::take(std::unique_ptr<ReceivedMessage> taken) {
  const flight::DataParts data = flight::read_data(taken->parts());
  if (data.header.empty()) return std::nullopt;  // application metadata alone
  const bool body = has_body(data.header);
  transport::Incoming incoming = message(MessageType::kMetadata, data.header);
  if (body) {
    body_at_ = data.body_at;
    body_size_ = data.body_size;
    with_body_ = std::move(taken);
  } else {
    if (data.body_size > 0) throw ProtocolError("a message of Flight's has a body that its metadata doesn't know");
    ++sequence_;
  }
  return incoming;
}

std::optional<transport::Incoming> DataReceiver::next_body() {
  const std::unique_ptr<ReceivedMessage> from = std::move(with_body_);
  const std::uint64_t tag = dissociated::write_tag(sequence_++, dissociated::BodyType::kPacked);
  const std::shared_ptr<std::byte> to = (memory_->takes(tag) ? memory_ : pool_)->allocate(body_size_);
  flight::copy_out(from->parts(), body_at_, body_size_, to.get());
  return transport::Incoming{true, tag, {to.get(), body_size_}, to};
}

}  // namespace crossdock::session
