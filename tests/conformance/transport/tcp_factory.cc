#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "suite.h"
#include "support/certificates.h"
#include "transport/tcp.h"

namespace crossdock::transport::conformance {
namespace {

/// How the two ends listen and connect.
struct TcpEnds {
  std::function<std::unique_ptr<Listener>(const Agreement&, const TcpOptions&)> listen;
  std::function<std::unique_ptr<Connection>(const std::string& address, const TcpOptions&)> connect;
};

Implementation over(std::string name, std::string token, const TcpEnds& ends) {
  Implementation out;
  out.name = std::move(name);
  out.takes_largest_at_once = false;
  out.same_user = false;
  out.network = true;
  out.connect = [ends, token](const Wishes& wishes) {
    TcpOptions options;
    options.max_message = options.max_request = wishes.max_message;
    options.token = token;
    if (wishes.small_queue) {
      options.queue_bytes = 0;
      // Not less: loopback sends up to 64 KiB at once, and a window under that opens by timers only.
      options.send_buffer = options.receive_buffer = 256 << 10;
    }
    const auto listener = ends.listen(wishes.agreement, options);
    const std::string uri = listener->uri();
    Pair pair;
    std::exception_ptr failure;
    std::thread connecting([&] {
      try {
        pair.second = ends.connect(uri.substr(uri.find(':') + 1), options);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    pair.first = accept_one(*listener);
    connecting.join();
    if (failure) std::rethrow_exception(failure);
    return pair;
  };
  return out;
}

Implementation tcp(std::string name, const std::string& address, std::string token) {
  return over(std::move(name), std::move(token),
              {.listen =
                   [address](const Agreement& wished, const TcpOptions& options) {
                     return tcp_listen(address, wished.want_data, *wished.free_data, options, nullptr);
                   },
               .connect = [](const std::string& uri,
                             const TcpOptions& options) { return tcp_connect(uri, options, kPatienceMs, nullptr); }});
}

/// With `mutual`, the client has a certificate, too.
Implementation tls(std::string name, const std::string& address, std::string token, bool mutual) {
  // Made by the first case that needs them: making keys takes longer than most cases of the other transports.
  const auto certificates = [] {
    static const crossdock::testing::TestCertificates made;
    return &made;
  };
  return over(std::move(name), std::move(token),
              {.listen =
                   [=](const Agreement& wished, const TcpOptions& options) {
                     return tcp_tls_listen(address, wished.want_data, *wished.free_data, options,
                                           certificates()->server_options(mutual), nullptr);
                   },
               .connect =
                   [=](const std::string& uri, const TcpOptions& options) {
                     return tcp_tls_connect(uri, options, certificates()->client_options(mutual), kPatienceMs, nullptr);
                   }});
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance,
                         ::testing::Values(tcp("tcp", "", ""), tcp("tcp6_token", "//[::1]:0", "a shared secret"),
                                           tls("tls", "", "", false),
                                           tls("tls6_mutual_token", "//[::1]:0", "a shared secret", true)),
                         implementation_name);

}  // namespace
}  // namespace crossdock::transport::conformance
