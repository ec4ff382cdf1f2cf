#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/fork.h"
#include "device/region.h"
#include "library.h"
#include "transport/internal/socket_address.h"

namespace crossdock::transport::fabric {

/// Closes an object of libfabric.
struct CloseFid {
  template <typename T>
  void operator()(T* object) const noexcept {
    object->fid.ops->close(&object->fid);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, CloseFid>;

/// Returns what a provider has for us at the address `host`, or at any of this machine's if it is null. Throws
/// UnsupportedError if there is no such provider, or if it lacks what we need.
Info find_provider(const FabricLibrary& library, const std::string& provider, const SocketAddress* host);

/// A provider's domain at one address of this machine: what endpoints and registered memory belong to. Thread-safe. In
/// a forked child, the destructor does nothing.
class FabricDomain {
 public:
  /// Opens the domain for endpoints at `host`, whatever its port. Throws UnsupportedError if there is no such provider
  /// for that address, ResourceError, SystemError.
  FabricDomain(std::shared_ptr<const FabricLibrary> library, const std::string& provider, const SocketAddress& host);
  FabricDomain(const FabricDomain&) = delete;
  FabricDomain& operator=(const FabricDomain&) = delete;
  ~FabricDomain();

  const FabricLibrary& library() const noexcept { return *library_; }
  fi_info* info() const noexcept { return info_.get(); }
  fid_fabric* fabric() const noexcept { return fabric_.get(); }
  fid_domain* get() const noexcept { return domain_.get(); }
  /// Addresses in reads are those of the peer's process; else offsets in its registered memory.
  bool virtual_addresses() const noexcept;
  /// The provider chooses keys; else whoever registers memory does.
  bool chooses_keys() const noexcept;
  /// Messages and reads proceed without calls of ours.
  bool progresses_by_itself() const noexcept;

 private:
  const ForkGuard fork_;
  const std::shared_ptr<const FabricLibrary> library_;
  Info info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
};

/// The domains of one user of a provider, one for each address. Thread-safe.
class FabricDomains {
 public:
  FabricDomains(std::vector<std::string> libraries, std::string provider)
      : libraries_(std::move(libraries)), provider_(std::move(provider)) {}
  /// Returns the domain for endpoints beside `link`, a connected socket. Throws the errors of FabricDomain's
  /// constructor; UnsupportedError without a library.
  std::shared_ptr<const FabricDomain> beside(int link) const;

 private:
  const std::vector<std::string> libraries_;
  const std::string provider_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const FabricDomain>> domains_;  // by host
};

/// A region that peers can read, if they are told its key. Thread-safe. In a forked child, the destructor does nothing.
class RegisteredRegion {
 public:
  /// Returns the region's registration in the domain. It is made once, and lives as long as the region. Throws
  /// ResourceError if the system refuses it.
  static std::shared_ptr<const RegisteredRegion> of(const device::Region& region,
                                                    const std::shared_ptr<const FabricDomain>& domain);

  RegisteredRegion(const device::Region& region, std::shared_ptr<const FabricDomain> domain);
  RegisteredRegion(const RegisteredRegion&) = delete;
  RegisteredRegion& operator=(const RegisteredRegion&) = delete;
  ~RegisteredRegion();

  std::uint64_t key() const noexcept { return key_; }
  /// The address of its first byte, as reads name it.
  std::uint64_t start() const noexcept { return start_; }

 private:
  const ForkGuard fork_;
  const std::shared_ptr<const FabricDomain> domain_;
  std::shared_ptr<const device::Region> mapped_;  // of a region that this process made without mapping it
  Owned<fid_mr> memory_;
  std::uint64_t key_ = 0;
  std::uint64_t start_ = 0;
};

}  // namespace crossdock::transport::fabric
