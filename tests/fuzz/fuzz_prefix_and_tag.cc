#include <algorithm>

#include "dissociated/wire.h"
#include "fuzz.h"

/// What is read is what would be written, to the bit: no two forms of one message.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  const ByteSpan message = fuzz::bytes(data, size);
  try {
    const dissociated::Prefix prefix = dissociated::read_prefix(message);
    const dissociated::PrefixBytes written = dissociated::write_prefix(prefix.type, prefix.sequence);
    fuzz::require(std::equal(written.begin(), written.end(), message.begin()));
  } catch (const ProtocolError&) {
  }
  const auto tag = fuzz::Input(message).number<std::uint64_t>();
  try {
    const dissociated::Tag read = dissociated::read_tag(tag);
    fuzz::require(dissociated::write_tag(read.sequence, read.type) == tag);
  } catch (const ProtocolError&) {
  }
  return 0;
}
