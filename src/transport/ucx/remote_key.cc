#include "remote_key.h"

#include <algorithm>
#include <string>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {
namespace {

/// UCX isn't told how long a packed key is, and reads as far as its content says: at most a length of one byte, and as
/// many bytes, for each of 64 memory domains, beside a header. Zeros up to there keep such reads inside the buffer.
constexpr std::size_t kReadByUcx = RemoteKey::kMaxBytes + std::size_t{64} * 256;

/// Where a packed key says what kind of memory it is for: behind the set of its memory domains. The layout is that of
/// 1.13 to 1.22. 1.22 takes the kind as an index of its tables without a check.
constexpr std::size_t kKindOfMemory = sizeof(std::uint64_t);

}  // namespace

RemoteKey::RemoteKey(const Endpoint& endpoint, ByteSpan packed) : worker_(endpoint.worker_) {
  if (packed.empty() || packed.size() > kMaxBytes) {
    throw ProtocolError(worker_->where() + " sent a key of " + std::to_string(packed.size()) +
                        " bytes for its memory; it must have 1 to " + std::to_string(kMaxBytes));
  }
  if (packed.size() > kKindOfMemory) {
    if (const auto kind = std::to_integer<unsigned>(packed[kKindOfMemory]); kind >= UCS_MEMORY_TYPE_LAST) {
      throw ProtocolError(worker_->where() + " sent a key for a kind of memory that doesn't exist, " +
                          std::to_string(kind));
    }
  }
  std::vector<std::byte> padded(kReadByUcx);
  std::ranges::copy(packed, padded.begin());
  const Worker::Lock lock(*worker_);
  endpoint.check_usable();
  worker_->keep_place_for_key();
  const ucs_status_t status = worker_->context().api().ep_rkey_unpack(endpoint.state_.endpoint, padded.data(), &key_);
  if (status == UCS_OK) return;
  --worker_->keys_;
  throw ProtocolError(worker_->where() + " sent a key for its memory that UCX doesn't accept: " +
                      worker_->context().library().text(status));
}

RemoteKey::~RemoteKey() {
  if (worker_->context().library().in_child()) return;
  const Worker::Lock lock(*worker_);
  worker_->drop_key(key_);
}

}  // namespace crossdock::transport::ucx
