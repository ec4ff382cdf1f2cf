#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "session/flight/channel.h"
#include "transport/registry.h"

namespace crossdock::session {

/// Clients of Flight servers, whose streams come by DoGet. It has no listeners: see ServerOptions::flight. Thread-safe.
class FlightTransport final : public transport::Transport {
 public:
  /// `tls`: of the scheme grpc+tls.
  FlightTransport(std::string_view scheme, GrpcOptions options, std::optional<transport::TlsOptions> tls = {})
      : scheme_(scheme), options_(std::move(options)), tls_(std::move(tls)) {}

  std::string_view scheme() const noexcept override { return scheme_; }
  transport::Ways ways() const noexcept override { return transport::Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  /// Throws UnsupportedError, as listen() does.
  void check_address(const std::string& address) const override { static_cast<void>(listen(address, 0, 0, nullptr)); }
  std::unique_ptr<transport::Listener> listen(const std::string& address, std::uint64_t want_data,
                                              std::uint64_t free_data, LogCallback log) const override;
  /// Connects nothing yet: gRPC connects when the first stream is requested.
  std::unique_ptr<transport::Connection> connect(const std::string& address, const transport::ConnectOptions& wishes,
                                                 int timeout_ms,
                                                 const transport::InterruptHook& interrupted) const override;

  /// Returns the channel to an address, which all connections to it share while one of them is there.
  std::shared_ptr<FlightChannel> channel(const std::string& address) const;

 private:
  const std::string scheme_;
  const GrpcOptions options_;
  const std::optional<transport::TlsOptions> tls_;
  mutable std::mutex mutex_;
  mutable std::string last_address_;
  mutable std::weak_ptr<FlightChannel> last_;
};

}  // namespace crossdock::session
