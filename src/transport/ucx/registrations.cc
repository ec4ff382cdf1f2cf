#include "registrations.h"

#include <string>
#include <tuple>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {

std::pair<ucp_mem_h, std::vector<std::byte>> Registrations::add(const void* data, std::size_t size) {
  const Api& api = library_->api();
  library_->check_fork();
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) throw ClosedError("ucx: memory is registered for a transport that was closed");
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = const_cast<void*>(data);
  params.length = size;
  ucp_mem_h memory = nullptr;
  library_->check(api.mem_map(context_, &params, &memory), "registering memory of " + std::to_string(size) + " bytes");
  void* packed = nullptr;
  try {
    std::size_t packed_size = 0;
    library_->check(api.rkey_pack(context_, memory, &packed, &packed_size), "packing the key of registered memory");
    const auto* const bytes = static_cast<const std::byte*>(packed);
    std::vector<std::byte> key(bytes, bytes + packed_size);
    registered_.insert(memory);
    api.rkey_buffer_release(packed);
    return {memory, std::move(key)};
  } catch (...) {
    if (packed != nullptr) api.rkey_buffer_release(packed);
    api.mem_unmap(context_, memory);
    throw;
  }
}

void Registrations::remove(ucp_mem_h memory) noexcept {
  if (library_->in_child()) return;
  const std::lock_guard lock(mutex_);
  if (registered_.erase(memory) > 0) library_->api().mem_unmap(context_, memory);
}

void Registrations::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const ucp_mem_h memory : registered_) library_->api().mem_unmap(context_, memory);
  registered_.clear();
  context_ = nullptr;
}

RegisteredMemory::RegisteredMemory(std::shared_ptr<Registrations> registrations, const void* data, std::size_t size)
    : registrations_(std::move(registrations)) {
  std::tie(memory_, key_) = registrations_->add(data, size);
}

std::shared_ptr<const RegisteredRegion> registered(const std::shared_ptr<Registrations>& registrations,
                                                   const std::shared_ptr<const device::Region>& region) {
  return std::static_pointer_cast<const RegisteredRegion>(region->attachment(registrations.get(), [&] {
    std::shared_ptr<const device::Region> mapping;
    if (region->data() == nullptr) mapping = device::readable(region, "memory to be registered with UCX");
    // It keeps `registrations`, so that no other object can get this address, which is the key.
    return std::make_shared<RegisteredRegion>(registrations, *region, std::move(mapping));
  }));
}

}  // namespace crossdock::transport::ucx
