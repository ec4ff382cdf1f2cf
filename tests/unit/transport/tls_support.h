#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "support/certificates.h"
#include "tcp_support.h"
#include "transport/internal/socket_address.h"

/// Helpers of the tests of TLS: ends that use OpenSSL without Crossdock.
namespace crossdock::transport::tls_test {

using crossdock::testing::Certificate;
using crossdock::testing::CertificateFacts;
using crossdock::testing::TestCertificates;
using tcp_test::accept_one;
using tcp_test::address_of;
using tcp_test::await_event;
using tcp_test::in_ms;

/// The certificates of all tests of this program.
inline const TestCertificates& certificates() {
  static const TestCertificates made;
  return made;
}

/// A socket that is connected to the address.
inline UniqueFd connected(const std::string& address) {
  const SocketAddress endpoint = resolve("tcp", parse_address("tcp", address)).at(0);
  UniqueFd fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), endpoint.get(), endpoint.size) != 0) throw_errno(errno, "connecting a raw socket");
  const timeval limit{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

/// A server that goes on accepting on a thread of its own, until this is gone.
class Serving {
 public:
  explicit Serving(Listener& listener)
      : thread_([this, &listener](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (auto connection = listener.accept()) {
              connections_.push_back(std::move(connection));
              ++accepted_;
            }
            await_event(listener, 10);
          }
        }) {}
  int accepted() const { return accepted_; }
  /// Stops, and returns the connections.
  std::vector<std::unique_ptr<Connection>> stop() {
    thread_ = {};
    return std::move(connections_);
  }

 private:
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<int> accepted_{0};
  std::jthread thread_;
};

/// A client that is OpenSSL's own, over a blocking socket. It accepts every certificate.
class RawClient {
 public:
  struct Wishes {
    bool protocol = true;  ///< Asks for Crossdock's (ALPN).
    int most_version = TLS1_3_VERSION;
  };
  RawClient(const std::string& address, const Wishes& wishes) : RawClient(connected(address), wishes) {}
  RawClient(UniqueFd socket, const Wishes& wishes)
      : fd_(std::move(socket)), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    SSL_CTX_set_max_proto_version(context_.get(), wishes.most_version);
    session_.reset(SSL_new(context_.get()));
    const std::string protocol =
        "\x09"
        "crossdock";
    if (wishes.protocol) {
      SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(protocol.data()),
                          static_cast<unsigned>(protocol.size()));
    }
    SSL_set_fd(session_.get(), fd_.get());
  }
  bool connect() { return SSL_connect(session_.get()) == 1; }
  SSL* get() const { return session_.get(); }
  int socket() const { return fd_.get(); }
  void send(ByteSpan bytes) {
    std::size_t sent = 0;
    if (SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &sent) != 1 || sent != bytes.size()) {
      throw ConnectionError("the raw client can't send");
    }
  }
  /// The next `size` bytes; fewer at the end.
  std::vector<std::byte> receive(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t have = 0;
    std::size_t got = 0;
    while (have < size && SSL_read_ex(session_.get(), bytes.data() + have, size - have, &got) == 1) have += got;
    bytes.resize(have);
    return bytes;
  }

 private:
  UniqueFd fd_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> session_{nullptr, SSL_free};
};

}  // namespace crossdock::transport::tls_test
