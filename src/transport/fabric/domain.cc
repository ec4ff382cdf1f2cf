#include "domain.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "settings.h"

namespace crossdock::transport::fabric {
namespace {

constexpr std::uint64_t kCapabilities = FI_TAGGED | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;
/// Demands of providers on registered memory that we can meet.
constexpr int kRegistration = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// Has a structure of libfabric's own a copy of `text`, which it frees.
char* owned_copy(const std::string& text) {
  char* const copy = ::strdup(text.c_str());
  if (copy == nullptr) throw std::bad_alloc();
  return copy;
}

}  // namespace

Info find_provider(const FabricLibrary& library, const std::string& provider, const SocketAddress* host) {
  const Info hints = library.make_info();
  hints->caps = kCapabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;  // Operation has room for it
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = owned_copy(provider);
  hints->domain_attr->mr_mode = kRegistration;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  // A send is done when the peer has the bytes, so an end that says goodbye has nothing left that could get lost.
  hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  if (host != nullptr) {
    hints->addr_format = host->storage.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    hints->src_addr = std::malloc(host->size);
    if (hints->src_addr == nullptr) throw std::bad_alloc();
    std::memcpy(hints->src_addr, host->get(), host->size);
    hints->src_addrlen = host->size;
  }
  Info info = library.find(hints.get());
  if (info == nullptr) {
    throw UnsupportedError("fabric: libfabric " + library.version() + " (" + library.path() + ") has no provider \"" +
                           provider + "\" with tagged messages and reads" +
                           (host != nullptr ? " at " + host_of(*host) : "") +
                           "; the program fi_info (Debian: libfabric-bin) lists those that it has");
  }
  return info;
}

FabricDomain::FabricDomain(std::shared_ptr<const FabricLibrary> library, const std::string& provider,
                           const SocketAddress& host)
    : library_(std::move(library)), info_(find_provider(*library_, provider, &host)) {
  fid_fabric* fabric = nullptr;
  library_->check(library_->api().open_fabric(info_->fabric_attr, &fabric, nullptr), "opening " + provider);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  library_->check(fi_domain(fabric, info_.get(), &domain, nullptr), "opening a domain of " + provider);
  domain_.reset(domain);
}

FabricDomain::~FabricDomain() {
  if (!fork_.in_child()) return;
  [[maybe_unused]] const auto* const domain = domain_.release();
  [[maybe_unused]] const auto* const fabric = fabric_.release();
}

bool FabricDomain::virtual_addresses() const noexcept { return (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0; }
bool FabricDomain::chooses_keys() const noexcept { return (info_->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0; }
bool FabricDomain::progresses_by_itself() const noexcept {
  return info_->domain_attr->data_progress == FI_PROGRESS_AUTO;
}

std::shared_ptr<const FabricDomain> FabricDomains::beside(int link) const {
  const SocketAddress host = without_port(local_address(link));
  const std::string name = host_of(host);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const FabricDomain>& known = domains_[name];
  if (!known) known = std::make_shared<const FabricDomain>(FabricLibrary::require(libraries_), provider_, host);
  return known;
}

std::shared_ptr<const RegisteredRegion> RegisteredRegion::of(const device::Region& region,
                                                             const std::shared_ptr<const FabricDomain>& domain) {
  return std::static_pointer_cast<const RegisteredRegion>(
      region.attachment(domain.get(), [&] { return std::make_shared<RegisteredRegion>(region, domain); }));
}

RegisteredRegion::RegisteredRegion(const device::Region& region, std::shared_ptr<const FabricDomain> domain)
    : domain_(std::move(domain)) {
  const std::string what = "a region of " + std::to_string(region.size()) + " bytes";
  const std::byte* data = region.data();
  if (data == nullptr) {
    UniqueFd descriptor(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!descriptor) throw_errno(errno, "fabric: mapping " + what);
    mapped_ = device::Region::adopt(std::move(descriptor), region.kind(), region.size(), region.stamp(), what);
    data = mapped_->data();
  }
  std::uint64_t key = random_number();
  const std::size_t key_size = domain_->info()->domain_attr->mr_key_size;
  if (key_size < sizeof key) key &= (std::uint64_t{1} << (8 * key_size)) - 1;
  fid_mr* memory = nullptr;
  const int result = fi_mr_reg(domain_->get(), data, region.size(), FI_REMOTE_READ, 0, key, 0, &memory, nullptr);
  if (result < 0) {
    throw ResourceError("fabric: registering " + what + " for reads failed: " + domain_->library().text(-result) +
                        "; check the limit of locked memory (ulimit -l), or switch FabricOptions::remote_reads off");
  }
  memory_.reset(memory);
  key_ = fi_mr_key(memory);
  start_ = domain_->virtual_addresses() ? reinterpret_cast<std::uintptr_t>(data) : 0;
}

RegisteredRegion::~RegisteredRegion() {
  if (fork_.in_child()) [[maybe_unused]]
    const auto* const memory = memory_.release();
}

}  // namespace crossdock::transport::fabric
