#include <algorithm>
#include <vector>

#include "dissociated/request.h"
#include "fuzz.h"

/// A request that is read can be written, and has the same bytes then.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  const ByteSpan bytes = fuzz::bytes(data, size);
  dissociated::Request request;
  try {
    request = dissociated::parse_request(bytes);
  } catch (const ProtocolError&) {
    return 0;
  } catch (const UnsupportedError&) {
    return 0;
  }
  const std::vector<std::byte> written = dissociated::encode_request(request);
  fuzz::require(written.size() == size && std::equal(written.begin(), written.end(), bytes.begin()));
  return 0;
}
