#include "context.h"

#include <chrono>
#include <utility>

#include "core/blocked_signals.h"
#include "crossdock/core/error.h"
#include "net_devices.h"

namespace crossdock::transport::ucx {
namespace {

/// UCX's settings, as read from its environment variables. Those set here take precedence.
class Config {
 public:
  explicit Config(const UcxLibrary& library) : library_(library) {
    library.check(library.api().config_read(nullptr, nullptr, &config_), "reading UCX's settings");
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  ~Config() { library_.api().config_release(config_); }

  void set(const char* name, const std::string& value) {
    library_.check(library_.api().config_modify(config_, name, value.c_str()),
                   "setting UCX's option " + std::string(name) + " to " + value);
  }
  const ucp_config_t* get() const noexcept { return config_; }

 private:
  const UcxLibrary& library_;
  ucp_config_t* config_ = nullptr;
};

void configure(Config& config, const UcxLibrary& library, const UcxOptions& options, sa_family_t family,
               const std::string& net_devices) {
  config.set("TLS", options.transports);
  if (!net_devices.empty()) config.set("NET_DEVICES", net_devices);
  config.set("CM_REUSEADDR", "y");  // else a server can't listen at its port again for a minute
  if (options.keepalive.count() > 0) {
    config.set("KEEPALIVE_INTERVAL", std::to_string(options.keepalive.count()) + "s");
  }
  // Without it, a server writes beyond its memory when it accepts a client.
  if (family == AF_INET6) config.set("TCP_AF_PRIO", "inet6");
  // 1.13 accepts any name here, and complains about it when a worker is made.
  if (const auto limit = options.user_timeout.value_or(std::chrono::milliseconds(0)).count();
      limit > 0 && library.is_at_least(1, 22)) {
    config.set("TCP_USER_TIMEOUT", std::to_string(limit) + "ms");
  }
}

}  // namespace

UcxContext::UcxContext(std::shared_ptr<const UcxLibrary> library, const UcxOptions& options, sa_family_t family,
                       const std::string& net_devices)
    : library_(std::move(library)) {
  library_->check_fork();
  if (family == AF_INET6 && !library_->is_at_least(1, 22)) {
    throw UnsupportedError("ucx: IPv6 needs UCX 1.22 or later, and " + library_->path() + " is " + library_->version() +
                           "; use the IPv4 address");
  }
  library_->start();
  Config config(*library_);
  configure(config, *library_, options, family, net_devices);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (options.remote_reads) params.features |= UCP_FEATURE_RMA;
  params.mt_workers_shared = 1;  // each connection's worker may be used by another thread
  const BlockedSignals blocked;  // for the thread that UCX starts
  library_->check(api().init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context_),
                  "opening UCX for the devices " + (net_devices.empty() ? "of this machine" : net_devices));
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_THREAD_MODE | UCP_ATTR_FIELD_MEMORY_TYPES;
  const ucs_status_t status = api().context_query(context_, &attributes);
  if (status == UCS_OK && attributes.thread_mode == UCS_THREAD_MODE_MULTI) {
    memory_types_ = attributes.memory_types;
    if (options.remote_reads) registrations_ = std::make_shared<Registrations>(library_, context_);
    return;
  }
  api().cleanup(context_);
  library_->check(status, "asking UCX for its support of threads");
  throw UnsupportedError("ucx: " + library_->path() +
                         " was built for one thread only; use a UCX built with --enable-mt");
}

std::optional<ucs_memory_type_t> UcxContext::memory_type(device::DeviceType device) const noexcept {
  auto type = UCS_MEMORY_TYPE_HOST;
  switch (device) {
    case device::DeviceType::kCpu: break;
    case device::DeviceType::kCuda: type = UCS_MEMORY_TYPE_CUDA; break;
    case device::DeviceType::kRocm: type = UCS_MEMORY_TYPE_ROCM; break;
    default: return std::nullopt;
  }
  if (type != UCS_MEMORY_TYPE_HOST && ((memory_types_ >> type & 1) == 0 || !library_->ours())) return std::nullopt;
  return type;
}

UcxContext::~UcxContext() {
  if (library_->in_child()) return;
  if (registrations_) registrations_->close();
  api().cleanup(context_);
}

UcxContexts::UcxContexts(UcxOptions options)
    : options_(std::move(options)), library_(UcxLibrary::require(options_.libraries)) {}

std::shared_ptr<const UcxContext> UcxContexts::for_local(const SocketAddress& address) {
  library_->check_fork();
  std::string devices = options_.net_devices;
  if (devices.empty()) {
    const std::string interface = interface_of(address);
    if (!interface.empty()) devices = net_devices_of(interface);
  }
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const UcxContext>& known = contexts_[{address.storage.ss_family, devices}];
  std::shared_ptr<const UcxContext> context = known.lock();
  if (context == nullptr)
    known = context = std::make_shared<const UcxContext>(library_, options_, address.storage.ss_family, devices);
  return context;
}

std::shared_ptr<const UcxContext> UcxContexts::for_remote(const SocketAddress& address) {
  return options_.net_devices.empty() ? for_local(source_address(address)) : for_local(address);
}

}  // namespace crossdock::transport::ucx
