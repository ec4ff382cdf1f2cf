#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "device/region.h"
#include "library.h"

/// Memory of this process that peers may read. An end that allows remote reads lets its peer read and write all memory
/// of the process: over tcp, UCX checks neither the key nor the bounds of a read.
namespace crossdock::transport::ucx {

/// The memory that is registered with one context of UCX. Thread-safe. In a forked child, only the destructor may be
/// called, and does nothing.
class Registrations {
 public:
  Registrations(std::shared_ptr<const UcxLibrary> library, ucp_context_h context)
      : library_(std::move(library)), context_(context) {}
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;
  /// Ends all registrations, before the context is destroyed. Their owners then own nothing.
  void close() noexcept;

 private:
  friend class RegisteredMemory;
  const UcxLibrary& library() const noexcept { return *library_; }
  std::pair<ucp_mem_h, std::vector<std::byte>> add(const void* data, std::size_t size);
  void remove(ucp_mem_h memory) noexcept;

  const std::shared_ptr<const UcxLibrary> library_;
  std::mutex mutex_;
  ucp_context_h context_;  // null: it is destroyed
  std::unordered_set<ucp_mem_h> registered_;
};

/// Memory that is registered. Keeps neither the memory nor UCX's context. Thread-safe.
class RegisteredMemory {
 public:
  /// The memory at `data` must stay mapped while this lives. It may be read-only. Throws ClosedError after
  /// Registrations::close(), and what UCX's calls throw.
  RegisteredMemory(std::shared_ptr<Registrations> registrations, const void* data, std::size_t size);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory() { registrations_->remove(memory_); }

  /// The key that a peer needs to read the memory, as bytes to send.
  const std::vector<std::byte>& packed_key() const noexcept { return key_; }

 private:
  const std::shared_ptr<Registrations> registrations_;
  ucp_mem_h memory_ = nullptr;
  std::vector<std::byte> key_;
};

/// A region whose memory is registered. Doesn't keep the region.
struct RegisteredRegion {
  RegisteredRegion(std::shared_ptr<Registrations> registrations, const device::Region& region,
                   std::shared_ptr<const device::Region> its_mapping)
      : mapping(std::move(its_mapping)),
        data(mapping ? mapping->data() : region.data()),
        memory(std::move(registrations), data, region.size()) {}

  const std::shared_ptr<const device::Region> mapping;  ///< Of a region that this process hasn't mapped; else null.
  const std::byte* const data;                          ///< Its first byte.
  const RegisteredMemory memory;
};

/// Returns the registration of a region, which is made at the first call and lasts as long as the region. The region
/// isn't kept by what is returned, so keep both. Throws ResourceError (it can't be mapped), and as
/// RegisteredMemory() does.
std::shared_ptr<const RegisteredRegion> registered(const std::shared_ptr<Registrations>& registrations,
                                                   const std::shared_ptr<const device::Region>& region);

}  // namespace crossdock::transport::ucx
