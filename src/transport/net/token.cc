#include "token.h"

#include <vector>

namespace crossdock::transport::net {

Nonce make_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

Proof prove(std::string_view token, std::string_view role, std::span<const ByteSpan> records) {
  std::vector<ByteSpan> parts = {as_bytes(role)};
  parts.insert(parts.end(), records.begin(), records.end());
  return hmac_sha256(token, parts);
}

}  // namespace crossdock::transport::net
