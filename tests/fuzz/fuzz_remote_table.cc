#include <algorithm>
#include <vector>

#include "dissociated/wire.h"
#include "fuzz.h"

/// A body of type 1 that is taken is exactly what its pairs would be written as.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  const ByteSpan body = fuzz::bytes(data, size);
  std::vector<dissociated::RemoteBuffer> buffers;
  try {
    dissociated::read_remote_body(body, &buffers);
  } catch (const ProtocolError&) {
    return 0;
  }
  std::vector<std::byte> written;
  dissociated::write_remote_body(buffers, &written);
  fuzz::require(std::ranges::equal(written, body));
  return 0;
}
