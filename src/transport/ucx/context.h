#pragma once

#include <sys/socket.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/device/device.h"
#include "crossdock/transport/options.h"
#include "library.h"
#include "packed_parts.h"
#include "registrations.h"
#include "transport/internal/socket_address.h"

namespace crossdock::transport::ucx {

/// A context of UCX: its settings, its devices and its thread. Workers share it. Thread-safe.
class UcxContext {
 public:
  /// For addresses of one family, IPv4 or IPv6. `net_devices` is UCX's list of devices; empty: all. Throws ForkError;
  /// UnsupportedError if this build of UCX can't be used by several threads, or for IPv6 if it is older than 1.22; and
  /// what UCX's call throws.
  UcxContext(std::shared_ptr<const UcxLibrary> library, const UcxOptions& options, sa_family_t family,
             const std::string& net_devices);
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  /// In a forked child, leaves UCX's objects alone: they share descriptors with the parent's.
  ~UcxContext();

  ucp_context_h get() const noexcept { return context_; }
  const UcxLibrary& library() const noexcept { return *library_; }
  const Api& api() const noexcept { return library_->api(); }
  /// Returns UCX's name for memory of a device, if this UCX and its transports can send and receive it; else nothing. A
  /// library that another package has loaded may take memory of devices for the host's: then nothing, but for the host.
  std::optional<ucs_memory_type_t> memory_type(device::DeviceType device) const noexcept;
  /// Whether every peer may read and write this process's memory.
  bool remote_reads() const noexcept { return registrations_ != nullptr; }
  /// The memory that peers read; null unless remote_reads().
  const std::shared_ptr<Registrations>& registrations() const noexcept { return registrations_; }
  /// The memory in which connections pack bodies.
  const std::shared_ptr<PackedMemory>& packed_memory() const noexcept { return packed_memory_; }

 private:
  const std::shared_ptr<const UcxLibrary> library_;
  const std::shared_ptr<PackedMemory> packed_memory_ = std::make_shared<PackedMemory>();
  ucp_context_h context_ = nullptr;
  std::uint64_t memory_types_ = 0;  // a bit for each ucs_memory_type_t
  std::shared_ptr<Registrations> registrations_;
};

/// The contexts of one transport: one for each family and set of network devices that its addresses need. Thread-safe.
class UcxContexts {
 public:
  /// Opens UCX's library. Throws UnsupportedError (UcxLibrary::require()).
  explicit UcxContexts(UcxOptions options);

  /// Returns the context for listening at an address of this machine. Throws ForkError, and as UcxContext() and
  /// interface_of() do.
  std::shared_ptr<const UcxContext> for_local(const SocketAddress& address);
  /// Returns the context for connecting to an address. Throws likewise, and as source_address() does.
  std::shared_ptr<const UcxContext> for_remote(const SocketAddress& address);

  const UcxLibrary& library() const noexcept { return *library_; }

 private:
  const UcxOptions options_;
  const std::shared_ptr<const UcxLibrary> library_;
  std::mutex mutex_;
  std::map<std::pair<sa_family_t, std::string>, std::weak_ptr<const UcxContext>> contexts_;  // by family and devices
};

}  // namespace crossdock::transport::ucx
