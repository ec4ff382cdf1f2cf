#include <algorithm>

#include "fuzz.h"
#include "transport/net/records.h"

/// A record of the handshake: what is read of it is what would be written, as far as it is known.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  using namespace crossdock::transport::net;
  const ByteSpan record = fuzz::bytes(data, size);
  if (record.size() < kPreambleBytes) return 0;
  Preamble preamble;
  if (!decode(record, &preamble)) return 0;
  fuzz::require(preamble.size >= kPreambleBytes && preamble.size <= kMaxRecord);
  const auto holds = [&](const auto& known) {
    const auto written = encode(known);
    // Behind the preamble, whose size may count bytes that aren't known; reserved words aren't kept either.
    auto again = known;
    fuzz::require(decode(written, &again) && encode(again) == written);
  };
  Hello hello;
  if (decode(record, &hello)) holds(hello);
  Challenge challenge;
  if (decode(record, &challenge)) holds(challenge);
  TokenProof proof;
  if (decode(record, &proof)) holds(proof);
  Welcome welcome;
  if (decode(record, &welcome)) holds(welcome);
  transport::Refused refused;
  if (decode(record, &refused)) holds(refused);
  return 0;
}
