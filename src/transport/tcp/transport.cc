#include <memory>
#include <mutex>
#include <utility>

#include "carrier.h"
#include "connect.h"
#include "settings.h"
#include "transport/internal/socket_address.h"
#include "transport/tcp.h"
#include "transport/tls.h"

namespace crossdock::transport {
namespace {

using namespace tcp;  // NOLINT(google-build-using-namespace): the private half of this very layer

/// What both transports of this file are, but for how they listen and connect.
class StreamTransport : public Transport {
 public:
  explicit StreamTransport(const TcpOptions& options) : options_(options) { check_options(options); }
  Ways ways() const noexcept final { return Way::kMessage; }
  bool needs_sealed_files() const noexcept final { return false; }
  void check_address(const std::string& address) const override { static_cast<void>(parse_address(scheme(), address)); }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const final {
    // Clients only send requests and frees: bodies are accepted from no client.
    TcpOptions options = options_;
    options.max_body = 0;
    return listen_with(options, address, want_data, free_data, std::move(log), Serves::kStreams);
  }
  bool has_peers() const noexcept final { return true; }
  std::unique_ptr<Listener> listen_for_peers(const std::string& address, LogCallback log) const final {
    return listen_with(options_, address, 0, 0, std::move(log), Serves::kPeers);
  }

 protected:
  virtual std::unique_ptr<Listener> listen_with(const TcpOptions& options, const std::string& address,
                                                std::uint64_t want_data, std::uint64_t free_data, LogCallback log,
                                                Serves serves) const = 0;
  const TcpOptions options_;
};

class TcpTransport final : public StreamTransport {
 public:
  using StreamTransport::StreamTransport;
  std::string_view scheme() const noexcept override { return "tcp"; }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return tcp_connect(address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  std::unique_ptr<Listener> listen_with(const TcpOptions& options, const std::string& address, std::uint64_t want_data,
                                        std::uint64_t free_data, LogCallback log, Serves serves) const override {
    return tcp_listen(address, want_data, free_data, options, std::move(log), serves);
  }
};

class TcpTlsTransport final : public StreamTransport {
 public:
  TcpTlsTransport(const TcpOptions& options, TlsOptions tls) : StreamTransport(options), tls_(std::move(tls)) {}
  std::string_view scheme() const noexcept override { return "tcp+tls"; }
  void check_address(const std::string& address) const override {
    check_tls(tls_, true);
    StreamTransport::check_address(address);
  }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return connect_over(client(), address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  std::unique_ptr<Listener> listen_with(const TcpOptions& options, const std::string& address, std::uint64_t want_data,
                                        std::uint64_t free_data, LogCallback log, Serves serves) const override {
    return tcp_tls_listen(address, want_data, free_data, options, tls_, std::move(log), serves);
  }
  /// All connections share one: reading the system's roots takes longer than a handshake.
  Carrier client() const {
    const std::lock_guard lock(mutex_);
    if (!client_.tls) client_ = Carrier::with_tls(net::tls::End::kClient, tls_);
    return client_;
  }

  const TlsOptions tls_;
  mutable std::mutex mutex_;
  mutable Carrier client_;  // made when it is first needed
};

}  // namespace

std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options) {
  return std::make_shared<const TcpTransport>(options);
}

std::shared_ptr<const Transport> make_tcp_tls_transport(const TcpOptions& options, const TlsOptions& tls) {
  return std::make_shared<const TcpTlsTransport>(options, tls);
}

}  // namespace crossdock::transport
