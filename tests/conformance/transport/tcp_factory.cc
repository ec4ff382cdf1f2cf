#include <poll.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "suite.h"
#include "transport/tcp.h"

namespace crossdock::transport::conformance {
namespace {

std::unique_ptr<Connection> accept_one(Listener& listener) {
  for (;;) {
    if (auto connection = listener.accept()) return connection;
    pollfd ask{listener.descriptor(), POLLIN, 0};
    if (::poll(&ask, 1, kPatienceMs) == 0) throw std::runtime_error("nobody connected");
  }
}

Implementation tcp(std::string name, std::string address, std::string token) {
  Implementation out;
  out.name = std::move(name);
  out.takes_largest_at_once = false;
  out.same_user = false;
  out.network = true;
  out.connect = [address, token](const Wishes& wishes) {
    TcpOptions options;
    options.max_message = options.max_request = wishes.max_message;
    options.token = token;
    if (wishes.small_queue) {
      options.queue_bytes = 0;
      // Not less: loopback sends up to 64 KiB at once, and a window under that opens by timers only.
      options.send_buffer = options.receive_buffer = 256 << 10;
    }
    const auto listener =
        tcp_listen(address, wishes.agreement.want_data, *wishes.agreement.free_data, options, nullptr);
    const std::string uri = listener->uri();
    Pair pair;
    std::exception_ptr failure;
    std::thread connecting([&] {
      try {
        pair.second = tcp_connect(uri.substr(4), options, kPatienceMs, nullptr);
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

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance,
                         ::testing::Values(tcp("tcp", "", ""), tcp("tcp6_token", "//[::1]:0", "a shared secret")),
                         implementation_name);

}  // namespace
}  // namespace crossdock::transport::conformance
