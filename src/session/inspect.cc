#include "session/inspect.h"

#include <array>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::size_t kLengthPrefix = 8;  // before each compressed buffer

}  // namespace

ipc::BatchDescription FileInspector::describe(std::size_t index) {
  if (index >= plan_.messages.size()) {
    throw InvalidArgumentError("there is no message " + std::to_string(index) + ": " + name_ + " has " +
                               std::to_string(plan_.messages.size()) + ", counted from 0");
  }
  const ipc::ContainerMessage& place = plan_.messages[index];
  const std::string where = "the message at byte " + std::to_string(place.metadata_offset) + " of " + name_;
  std::vector<std::byte> metadata(static_cast<std::size_t>(place.metadata_length));
  source_.read(place.metadata_offset, metadata);
  ipc::BatchDescription out = ipc::describe_batch(metadata, *plan_.schema, limits_, where.c_str());
  if (out.message.kind != place.kind || out.message.body_length != place.body_length) {
    throw FileChangedError(where + ": the file changed while it was read");
  }
  if (out.message.codec == ipc::Codec::kNone) return out;
  for (ipc::BufferDescription& buffer : out.buffers) {
    std::array<std::byte, kLengthPrefix> head{};
    if (buffer.range.length >= static_cast<std::int64_t>(kLengthPrefix)) {
      source_.read(place.body_offset + buffer.range.offset, head);
    }
    buffer.decompressed = ipc::decompressed_size(head, buffer.range.length).value_or(-1);
  }
  return out;
}

}  // namespace crossdock::session
