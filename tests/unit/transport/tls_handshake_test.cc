// What a server and a client of tcp+tls accept, and what they say of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>

#include "tls_support.h"

namespace crossdock::transport::tls_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsHandshake : public ::testing::Test {
 protected:
  void listen(const TlsOptions& tls, const TcpOptions& options = {}) {
    listener_ = tcp_tls_listen("", 1, 2, options, tls, log());
    serving_ = std::make_unique<Serving>(*listener_);
  }
  void listen_plain(const TcpOptions& options = {}) {
    listener_ = tcp_listen("", 1, 2, options, log());
    serving_ = std::make_unique<Serving>(*listener_);
  }
  LogCallback log() {
    return [this](LogLevel, std::string_view text) { log_ += std::string(text) + "\n"; };
  }
  std::string address() const { return address_of(*listener_); }
  void expect_connects(const TlsOptions& tls, const TcpOptions& options = {}) {
    EXPECT_EQ(tcp_tls_connect(address(), options, tls, 10'000, nullptr)->agreement().carrier, "tcp+tls");
  }
  /// What the client is told.
  template <typename E>
  std::string failure(const TlsOptions& tls, const TcpOptions& options = {}) {
    try {
      tcp_tls_connect(address(), options, tls, 10'000, nullptr);
    } catch (const E& error) {
      return error.what();
    }
    return "it connected";
  }
  /// What the server has logged, once it serves no more.
  std::string logged() {
    serving_->stop();
    return log_;
  }
  static TlsOptions server_with(const Certificate& certificate) {
    return {.certificate_chain = certificate.pem(), .private_key = certificate.key_pem()};
  }
  static TlsOptions client_with(const Certificate& certificate) {
    TlsOptions options = certificates().client_options();
    options.certificate_chain = certificate.pem();
    options.private_key = certificate.key_pem();
    return options;
  }

  std::string log_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Serving> serving_;
};

const std::vector<std::string> kNames = {"DNS:localhost", "IP:127.0.0.1"};

TEST_F(TlsHandshake, BothEndsSayWhatCarriesThem) {
  listen(certificates().server_options());
  EXPECT_THAT(listener_->uri(), HasSubstr("tcp+tls://127.0.0.1:"));
  expect_connects(certificates().client_options());
  while (serving_->accepted() == 0) std::this_thread::yield();
  EXPECT_EQ(serving_->stop().at(0)->agreement().carrier, "tcp+tls");
}

TEST_F(TlsHandshake, AnExpiredCertificateIsRefused) {
  listen(server_with(certificates().issuer.issue({.names = kNames, .valid_from_s = -200, .valid_until_s = -100})));
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("has expired"));
}

TEST_F(TlsHandshake, ACertificateOfTheFutureIsRefused) {
  listen(server_with(certificates().issuer.issue({.names = kNames, .valid_from_s = 3600, .valid_until_s = 7200})));
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("isn't valid yet"));
}

TEST_F(TlsHandshake, ACertificateOfAnotherNameIsRefusedUnlessThatNameIsExpected) {
  listen(server_with(certificates().issuer.issue({.names = {"DNS:tables.example"}})));
  TlsOptions client = certificates().client_options();
  EXPECT_THAT(failure<PermissionError>(client),
              AllOf(HasSubstr("another name than 127.0.0.1"), HasSubstr("server_name")));
  client.server_name = "other.example";
  EXPECT_THAT(failure<PermissionError>(client), HasSubstr("another name than other.example"));
  client.server_name = "tables.example";
  expect_connects(client);
}

TEST_F(TlsHandshake, ASelfSignedCertificateIsRefusedUnlessItIsARoot) {
  const Certificate own = Certificate::self_signed({.names = kNames});
  listen(server_with(own));
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("signed itself"));
  expect_connects({.roots = own.pem()});
}

TEST_F(TlsHandshake, AnUnknownIssuerIsRefusedAlsoWithoutRootsOfOnesOwn) {
  const Certificate other = Certificate::self_signed({.subject = "another issuer", .is_issuer = true});
  listen(certificates().server_options());
  EXPECT_THAT(failure<PermissionError>({.roots = other.pem()}), HasSubstr("issuer isn't trusted"));
  EXPECT_THAT(failure<PermissionError>({}), HasSubstr("isn't trusted by this system"));
}

TEST_F(TlsHandshake, AChainNeedsItsIntermediateCertificates) {
  const Certificate middle = certificates().issuer.issue({.subject = "in between", .is_issuer = true});
  const Certificate leaf = middle.issue({.names = kNames});
  TlsOptions server = server_with(leaf);
  listen(server);
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("issuer isn't trusted"));
  serving_.reset();
  server.certificate_chain += middle.pem();
  listen(server);
  expect_connects(certificates().client_options());
}

TEST_F(TlsHandshake, AClientWithoutACertificateIsToldThatOneIsRequired) {
  listen(certificates().server_options(true));
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("requires a certificate"));
  expect_connects(certificates().client_options(true));
  EXPECT_THAT(logged(), HasSubstr("has no certificate, and this end requires one"));
}

TEST_F(TlsHandshake, ABadCertificateOfAClientIsRefused) {
  listen(certificates().server_options(true));
  EXPECT_THAT(
      failure<PermissionError>(client_with(certificates().issuer.issue({.valid_from_s = -200, .valid_until_s = -100}))),
      HasSubstr("certificate has expired"));
  EXPECT_THAT(failure<PermissionError>(client_with(Certificate::self_signed({}))), HasSubstr("certificate"));
  EXPECT_THAT(logged(), AllOf(HasSubstr("has expired"), HasSubstr("signed itself"), HasSubstr("client roots")));
}

TEST_F(TlsHandshake, AServerWithoutTlsIsNamed) {
  listen_plain();
  EXPECT_THAT(failure<HandshakeError>(certificates().client_options()), HasSubstr("speaks no TLS at this port"));
  EXPECT_THAT(logged(), HasSubstr("the client speaks TLS"));
}

TEST_F(TlsHandshake, AClientWithoutTlsIsTold) {
  listen(certificates().server_options());
  try {
    tcp_connect(address(), {}, 10'000, nullptr);
    ADD_FAILURE() << "it connected";
  } catch (const HandshakeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the client speaks no TLS"));
  }
}

TEST_F(TlsHandshake, AServerThatIsNoneOfTlsIsNamed) {
  UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  const std::string uri = to_uri("tcp", "127.0.0.1", port_of(local_address(listening.get())));
  std::jthread answering([&] {
    const UniqueFd client(::accept(listening.get(), nullptr, nullptr));
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    std::array<char, 1024> dropped;
    while (::recv(client.get(), dropped.data(), dropped.size(), 0) > 0) {
    }
  });
  try {
    tcp_tls_connect(uri.substr(4), {}, certificates().client_options(), 10'000, nullptr);
    ADD_FAILURE() << "it connected";
  } catch (const HandshakeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("doesn't speak TLS 1.3"));
  }
}

TEST_F(TlsHandshake, OlderVersionsAndOtherProtocolsAreRefused) {
  listen(certificates().server_options());
  EXPECT_FALSE(RawClient(address(), {.most_version = TLS1_2_VERSION}).connect());
  RawClient other(address(), {.protocol = false});
  other.connect();  // without ALPN the server learns that at the end
  EXPECT_TRUE(other.receive(1).empty());
  expect_connects(certificates().client_options());
  EXPECT_THAT(logged(), AllOf(HasSubstr("doesn't speak TLS 1.3"), HasSubstr("doesn't agree on Crossdock's protocol")));
}

TEST_F(TlsHandshake, TheTokenIsProvedInside) {
  TcpOptions options;
  options.token = "a shared secret";
  listen(certificates().server_options(), options);
  expect_connects(certificates().client_options(), options);
  EXPECT_THAT(failure<PermissionError>(certificates().client_options()), HasSubstr("requires a token"));
  options.token = "another one";
  EXPECT_THAT(failure<PermissionError>(certificates().client_options(), options), HasSubstr("the token is wrong"));
}

TEST_F(TlsHandshake, AServerThatCannotProveTheTokenIsRefused) {
  listen(certificates().server_options());
  TcpOptions options;
  options.token = "a shared secret";
  EXPECT_THAT(failure<PermissionError>(certificates().client_options(), options), HasSubstr("requests no token"));
}

TEST_F(TlsHandshake, ATokenInAUriIsRefused) {
  EXPECT_THROW(tcp_tls_connect("//secret@127.0.0.1:7700", {}, {}, 100, nullptr), UriError);
  EXPECT_THROW(tcp_tls_listen("//secret@127.0.0.1:0", 1, 2, {}, certificates().server_options(), nullptr), UriError);
}

/// Passes bytes on between a client and a server, and cuts the connection after some bytes of one direction.
class CuttingProxy {
 public:
  CuttingProxy(const std::string& to, bool of_client, std::size_t after)
      : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (::listen(listening_.get(), 1) != 0) throw_errno(errno, "listening");
    thread_ = std::jthread([=, this] { run(to, of_client, after); });
  }
  std::string address() const { return to_uri("x", "127.0.0.1", port_of(local_address(listening_.get()))).substr(2); }
  /// Waits until both have closed. Returns whether the connection was cut.
  bool cut() {
    thread_.join();
    return cut_;
  }

 private:
  void run(const std::string& to, bool of_client, std::size_t after) {
    const UniqueFd client(::accept(listening_.get(), nullptr, nullptr));
    const UniqueFd server = connected(to);
    std::array<std::byte, 4096> bytes;
    for (;;) {
      std::array<pollfd, 2> ask = {pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
      if (::poll(ask.data(), ask.size(), 10'000) <= 0) return;
      const bool from_client = ask[0].revents != 0;
      ssize_t got = ::recv(ask[from_client ? 0 : 1].fd, bytes.data(), bytes.size(), 0);
      if (got <= 0) return;
      auto size = static_cast<std::size_t>(got);
      const bool counts = from_client == of_client;
      if (counts && size >= after) {
        size = after;
        cut_ = true;
      }
      if (counts) after -= size;
      ::send(ask[from_client ? 1 : 0].fd, bytes.data(), size, MSG_NOSIGNAL);
      if (cut_) return;
    }
  }

  UniqueFd listening_;
  bool cut_ = false;
  std::jthread thread_;
};

// A handshake has some 800 bytes of the client and 1,300 of the server; prime steps reach all kinds of places.
TEST_F(TlsHandshake, AHandshakeMayBeCutAtAnyByte) {
  TcpOptions options;
  options.token = "a shared secret";
  listen(certificates().server_options(true), options);
  for (const bool of_client : {true, false}) {
    int cuts = 0;
    for (std::size_t after = 1;; after += after < 64 ? 1 : 13) {
      CuttingProxy proxy(address(), of_client, after);
      std::string result = "connected";
      try {
        tcp_tls_connect(proxy.address(), options, certificates().client_options(true), 10'000, nullptr);
      } catch (const HandshakeError&) {
        result = "HandshakeError";
      } catch (const ConnectionError&) {
        result = "ConnectionError";
      }
      const bool cut = proxy.cut();
      if (result == "connected") break;  // all of it had passed
      EXPECT_TRUE(cut) << after << ": " << result;
      ++cuts;
    }
    EXPECT_GT(cuts, 80);
  }
  expect_connects(certificates().client_options(true), options);
}

TEST_F(TlsHandshake, ASilentClientDelaysNobodyAndIsDropped) {
  TcpOptions options;
  options.handshake_timeout = std::chrono::milliseconds(300);
  listen(certificates().server_options(), options);
  const UniqueFd silent = connected(address());
  const UniqueFd slow = connected(address());
  const std::array<unsigned char, 5> start = {22, 3, 1, 1, 0};  // a record of 256 bytes that never come
  ASSERT_EQ(::send(slow.get(), start.data(), start.size(), MSG_NOSIGNAL), 5);
  const auto begin = std::chrono::steady_clock::now();
  expect_connects(certificates().client_options());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(250));
  std::array<char, 16> bytes;
  EXPECT_LE(::recv(silent.get(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_LE(::recv(slow.get(), bytes.data(), bytes.size(), 0), 0);
}

TEST_F(TlsHandshake, AFlightLargerThanTheSocketIsSentInParts) {
  // Certificates that the client doesn't need, and a buffer that holds few of them.
  TlsOptions server = certificates().server_options();
  for (int i = 0; i < 80; ++i) server.certificate_chain += certificates().issuer.pem();
  TcpOptions small;
  small.send_buffer = small.receive_buffer = 4096;
  listen(server, small);
  expect_connects(certificates().client_options(), small);
}

TEST_F(TlsHandshake, OptionsThatCanNotWorkAreNamed) {
  const auto refused = [](const TlsOptions& tls) -> std::string {
    try {
      tcp_tls_listen("", 1, 2, {}, tls, nullptr);
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "accepted";
  };
  const TlsOptions good = certificates().server_options();
  EXPECT_THAT(refused({}), StartsWith("a server over TLS needs a certificate and its key"));
  EXPECT_EQ(refused({.certificate_chain = good.certificate_chain}),
            "the PEM text of the TLS certificate is given without a key: give both");
  EXPECT_EQ(refused({.private_key = good.private_key}),
            "the PEM text of the TLS key is given without a certificate: give both");
  TlsOptions bad = good;
  bad.certificate_chain = "no certificate";
  EXPECT_THAT(refused(bad), StartsWith("the PEM text of the TLS certificate has no certificate"));
  bad.certificate_chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(refused(bad), StartsWith("the PEM text of the TLS certificate has a certificate that can't be read"));
  bad = good;
  bad.private_key = "no key";
  EXPECT_THAT(refused(bad), StartsWith("the PEM text of the TLS key is no private key"));
  bad.private_key = certificates().client.key_pem();
  EXPECT_THAT(refused(bad), StartsWith("the PEM text of the TLS key isn't the key of the first certificate"));
  bad = good;
  bad.client_roots = "none";
  EXPECT_THAT(refused(bad), StartsWith("the PEM text of the TLS client roots has no certificate"));
}

}  // namespace
}  // namespace crossdock::transport::tls_test
