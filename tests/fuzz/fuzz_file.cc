#include "fuzz.h"
#include "ipc/container.h"

/// A whole Arrow IPC file or stream file: every message that is listed lies within it.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  const ByteSpan file = fuzz::bytes(data, size);
  try {
    const ipc::Container container = ipc::read_container(file, "the file", {});
    const auto end = static_cast<std::int64_t>(size);
    for (const ipc::ContainerMessage& message : container.messages) {
      fuzz::require(message.metadata_offset >= 0 && message.metadata_length >= 0 &&
                    message.metadata_offset <= end - message.metadata_length);
      fuzz::require(message.body_offset >= 0 && message.body_length >= 0 &&
                    message.body_offset <= end - message.body_length);
    }
  } catch (const Error&) {
  }
  return 0;
}
