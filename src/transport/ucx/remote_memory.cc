#include "remote_memory.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {
namespace {

/// UCX isn't told how long a packed key is, and reads as far as its content says: at most a length of one byte, and as
/// many bytes, for each of 64 memory domains, beside a header. Zeros up to there keep such reads inside the buffer.
constexpr std::size_t kReadByUcx = RemoteKey::kMaxBytes + std::size_t{64} * 256;

}  // namespace

RegisteredMemory::RegisteredMemory(std::shared_ptr<const UcxContext> context, const void* data, std::size_t size)
    : context_(std::move(context)) {
  if (!context_->remote_reads()) throw std::logic_error("this ucx context doesn't allow remote reads");
  const UcxLibrary& library = context_->library();
  const Api& api = library.api();
  library.check_fork();
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = const_cast<void*>(data);
  params.length = size;
  library.check(api.mem_map(context_->get(), &params, &memory_),
                "registering memory of " + std::to_string(size) + " bytes");
  void* packed = nullptr;
  std::size_t packed_size = 0;
  const ucs_status_t status = api.rkey_pack(context_->get(), memory_, &packed, &packed_size);
  if (status != UCS_OK) {
    api.mem_unmap(context_->get(), memory_);
    library.fail(status, "packing the key of registered memory");
  }
  try {
    const auto* const bytes = static_cast<const std::byte*>(packed);
    key_.assign(bytes, bytes + packed_size);
  } catch (const std::bad_alloc&) {
    api.rkey_buffer_release(packed);
    api.mem_unmap(context_->get(), memory_);
    throw;
  }
  api.rkey_buffer_release(packed);
}

RegisteredMemory::~RegisteredMemory() {
  if (!context_->library().in_child()) context_->api().mem_unmap(context_->get(), memory_);
}

RemoteKey::RemoteKey(const Endpoint& endpoint, ByteSpan packed) : worker_(endpoint.worker_) {
  if (packed.empty() || packed.size() > kMaxBytes) {
    throw ProtocolError(worker_->where() + " sent a key of " + std::to_string(packed.size()) +
                        " bytes for its memory; it must have 1 to " + std::to_string(kMaxBytes));
  }
  std::vector<std::byte> padded(kReadByUcx);
  std::ranges::copy(packed, padded.begin());
  const Worker::Lock lock(*worker_);
  endpoint.check_usable();
  const ucs_status_t status = worker_->context().api().ep_rkey_unpack(endpoint.state_.endpoint, padded.data(), &key_);
  if (status == UCS_OK) return;
  throw ProtocolError(worker_->where() + " sent a key for its memory that UCX doesn't accept: " +
                      worker_->context().library().text(status));
}

RemoteKey::~RemoteKey() {
  if (worker_->context().library().in_child()) return;
  const Worker::Lock lock(*worker_);
  worker_->context().api().rkey_destroy(key_);
}

}  // namespace crossdock::transport::ucx
