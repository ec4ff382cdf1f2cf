#include "session/flight/put.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "flight/service.h"
#include "ipc/metadata.h"
#include "session/dictionary_tracker.h"
#include "session/flight/message.h"
#include "session/flight/outgoing_call.h"
#include "session/server_stream.h"
#include "session/source_batch.h"

namespace crossdock::session {
namespace {

/// A batch in normal form on the host, as the message that is sent.
OutgoingMessage message_of(ByteSpan metadata, array::RecordBatch batch) {
  OutgoingMessage message;
  auto held = std::make_shared<const array::RecordBatch>(std::move(batch));
  std::uint64_t size = 0;
  for (const array::BufferView& buffer : held->buffers) {
    pack({static_cast<const std::byte*>(buffer.data), static_cast<std::size_t>(buffer.size)}, &message.parts);
  }
  for (const ByteSpan part : message.parts) size += part.size();
  if (size + metadata.size() > kMostMessage - 64) {
    throw InvalidArgumentError("a batch of " + std::to_string(size) +
                               " bytes is too long for Flight, whose limit is 2 GiB: put smaller batches");
  }
  message.head = flight::encode_data_head(metadata, size);
  message.keep = std::move(held);
  return message;
}

}  // namespace

void put(const std::shared_ptr<FlightChannel>& channel, const std::string& name, array::BatchStream& stream,
         bool only_new, const Runtime& runtime, const exchange::WaitFunction& wait, int timeout_ms,
         const transport::InterruptHook& interrupted) {
  ipc::Encoder encoder;
  DictionaryTracker dictionaries;
  std::int64_t bitmap_bytes = 0;
  const flight::FlightDescriptor descriptor = flight::descriptor_of(name);
  const ByteSpan schema = encoder.schema(*stream.schema());
  const auto call = OutgoingCall::start(
      channel, "DoPut",
      {flight::encode_data_head(schema, 0, &descriptor, only_new ? flight::kOnlyNew : std::string_view())}, true);
  try {
    bool there = true;  // the server still takes messages
    const auto send = [&](ByteSpan metadata, array::RecordBatch batch) {
      there = there && call->send(message_of(metadata, std::move(batch)), timeout_ms, interrupted);
    };
    // Returns a batch, or a dictionary, in normal form on the host.
    const auto on_host = [&](array::RecordBatch batch, bool is_there) {
      if (is_there) return array::normalized(std::move(batch), &bitmap_bytes, array::Offsets::kFromZero);
      exchange::BatchCopy copy = plan_copy(std::move(batch), runtime);
      const std::shared_ptr<std::byte[]> memory(new std::byte[copy.bytes()]);
      std::uint64_t copied = 0;
      std::byte* const to = memory.get();
      return copied_to(std::move(copy), to, memory, wait, &copied, &bitmap_bytes);
    };
    while (there) {
      std::optional<array::RecordBatch> batch = stream.next();
      if (!batch) break;
      check_announced(*batch, stream);
      const bool is_there = wait_on_host(&*batch, runtime, wait);
      if (!is_there) check_structure(*batch);
      dictionaries.update(*batch, [&](std::int64_t id, const array::RecordBatch& values) {
        array::RecordBatch placed = on_host(values, is_there);
        const ByteSpan metadata = encoder.dictionary_batch(placed, id, false);
        send(metadata, std::move(placed));
      });
      array::RecordBatch placed = on_host(*std::move(batch), is_there);
      const ByteSpan metadata = encoder.record_batch(placed);
      send(metadata, std::move(placed));
    }
    if (there) call->end_messages(timeout_ms, interrupted);
    for (;;) {
      call->wait(timeout_ms, interrupted);
      while (call->take()) {
      }
      const std::optional<flight::Status> status = call->over();
      if (!status) continue;
      // Here it is about what the caller gave: the name.
      if (status->code == flight::StatusCode::kInvalidArgument && !status->text.starts_with("InvalidArgumentError: ")) {
        throw InvalidArgumentError(excerpt(status->text, kMostErrorText) + " (reported by " + channel->where() + ")");
      }
      if (status->code != flight::StatusCode::kOk) throw_status(*status, channel->where());
      if (!there) throw ConnectionError(channel->where() + " has ended DoPut before it had the whole table");
      return;
    }
  } catch (...) {
    call->cancel();
    throw;
  }
}

}  // namespace crossdock::session
