#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "endpoint.h"

/// Keys for reads of another process's memory. A context that allows remote reads lets its peers read and write all
/// memory of the process: over tcp, UCX checks neither the key nor the bounds of a read.
namespace crossdock::transport::ucx {

/// Memory of this process that is registered with UCX, so that peers can read it. Keeps its context, not the memory.
/// Thread-safe. In a forked child, the destructor does nothing.
class RegisteredMemory {
 public:
  /// The memory at `data` must stay mapped while this lives. It may be read-only. Throws std::logic_error unless the
  /// context allows remote reads; and what UCX's calls throw.
  RegisteredMemory(std::shared_ptr<const UcxContext> context, const void* data, std::size_t size);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory();

  /// The key that a peer needs to read the memory, as bytes to send.
  const std::vector<std::byte>& packed_key() const noexcept { return key_; }

 private:
  const std::shared_ptr<const UcxContext> context_;
  ucp_mem_h memory_ = nullptr;
  std::vector<std::byte> key_;
};

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
