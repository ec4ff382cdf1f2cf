#include "core/hmac.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>  // and EVP_sha256()
#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock {

Digest hmac_sha256(std::string_view key, std::span<const ByteSpan> parts) {
  std::vector<std::byte> text;
  for (const ByteSpan part : parts) text.insert(text.end(), part.begin(), part.end());
  Digest digest;
  unsigned size = 0;
  const unsigned char* const made = ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                           reinterpret_cast<unsigned char*>(digest.data()), &size);
  if (made == nullptr || size != digest.size()) {
    throw SystemError(
        "libcrypto can't compute HMAC-SHA256, which tokens and tickets need; check whether its configuration disables "
        "it");
  }
  return digest;
}

bool same(const Digest& a, const Digest& b) noexcept { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

void fill_random(std::span<std::byte> bytes) {
  // The system returns this few bytes all at once, as soon as it has randomness. A signal may interrupt the wait for
  // that.
  ssize_t got = 0;
  do {
    got = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(bytes.size())) throw_errno(errno, "asking the system for random bytes");
}

}  // namespace crossdock
