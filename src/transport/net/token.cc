#include "token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {

Nonce make_nonce() {
  Nonce nonce;
  // The system returns this few bytes all at once, as soon as it has randomness. A signal may interrupt the wait for
  // that.
  ssize_t got = 0;
  do {
    got = ::getrandom(nonce.data(), nonce.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(nonce.size())) throw_errno(errno, "asking the system for random bytes");
  return nonce;
}

Proof prove(std::string_view token, std::string_view role, std::span<const ByteSpan> records) {
  std::vector<std::byte> text(as_bytes(role).begin(), as_bytes(role).end());
  for (const ByteSpan record : records) text.insert(text.end(), record.begin(), record.end());
  Proof proof;
  unsigned size = 0;
  const unsigned char* const made = ::HMAC(::EVP_sha256(), token.data(), static_cast<int>(token.size()),
                                           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                           reinterpret_cast<unsigned char*>(proof.data()), &size);
  if (made == nullptr || size != proof.size()) {
    throw SystemError(
        "libcrypto can't compute HMAC-SHA256, which tokens need; check whether its configuration disables it");
  }
  return proof;
}

bool same(const Proof& a, const Proof& b) noexcept { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace crossdock::transport::net
