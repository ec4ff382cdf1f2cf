// Stands in for the other sources of this folder where libfabric's headers were missing when Crossdock was built.
#include "crossdock/core/error.h"
#include "transport/fabric.h"

namespace crossdock::transport {
namespace {

constexpr const char* kNoFabric = "this Crossdock was built without libfabric's headers (libfabric-dev)";

[[noreturn]] void fail_without_fabric() {
  throw UnsupportedError(std::string("fabric: ") + kNoFabric + "; build it with them, or use tcp:");
}

class NoFabric final : public Transport {
 public:
  std::string_view scheme() const noexcept override { return "fabric"; }
  Ways ways() const noexcept override { return Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string&) const override { fail_without_fabric(); }
  std::unique_ptr<Listener> listen(const std::string&, std::uint64_t, std::uint64_t, LogCallback) const override {
    fail_without_fabric();
  }
  std::unique_ptr<Connection> connect(const std::string&, const ConnectOptions&, int,
                                      const InterruptHook&) const override {
    fail_without_fabric();
  }
};

}  // namespace

FabricReport find_fabric(const FabricOptions& options) { return {.provider = options.provider, .tried = {kNoFabric}}; }

std::unique_ptr<Listener> fabric_listen(const std::string&, std::uint64_t, std::uint64_t, const FabricOptions&,
                                        LogCallback) {
  fail_without_fabric();
}

std::unique_ptr<Connection> fabric_connect(const std::string&, const FabricOptions&, int, const InterruptHook&,
                                           const ConnectOptions&) {
  fail_without_fabric();
}

std::shared_ptr<const Transport> make_fabric_transport(const FabricOptions&) {
  return std::make_shared<const NoFabric>();
}

}  // namespace crossdock::transport
