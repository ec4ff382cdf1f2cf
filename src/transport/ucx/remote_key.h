#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "endpoint.h"

/// Keys for reads of another process's memory. A context that allows remote reads lets its peers read and write all
/// memory of the process: over tcp, UCX checks neither the key nor the bounds of a read.
namespace crossdock::transport::ucx {

/// A key of the peer's, for reads by one endpoint. Keeps the endpoint's worker. Thread-safe. In a forked child, the
/// destructor does nothing.
class RemoteKey {
 public:
  static constexpr std::size_t kMaxBytes = 4096;  ///< Of a packed key.

  /// Decodes a key that the peer sent. It must have come over this endpoint: before the first message from the peer,
  /// UCX 1.22 can't use one. UCX trusts its content. Throws ProtocolError if UCX can't decode it, or if it is too long.
  RemoteKey(const Endpoint& endpoint, ByteSpan packed);
  RemoteKey(const RemoteKey&) = delete;
  RemoteKey& operator=(const RemoteKey&) = delete;
  ~RemoteKey();

  ucp_rkey_h get() const noexcept { return key_; }

 private:
  const std::shared_ptr<Worker> worker_;
  ucp_rkey_h key_ = nullptr;
};

}  // namespace crossdock::transport::ucx
