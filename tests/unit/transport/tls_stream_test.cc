// The stream of TLS alone, over a pair of sockets; the peer is another such stream, or OpenSSL without Crossdock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "tls_support.h"
#include "transport/net/tls/stream.h"

namespace crossdock::transport::tls_test {
namespace {

using net::IoResult;
using net::tls::Context;
using net::tls::End;
using net::tls::Stream;

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw_errno(errno, "making two sockets");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void await(int socket, int events) {
  pollfd ask{socket, static_cast<short>(events), 0};
  ASSERT_GT(::poll(&ask, 1, 10'000), 0);
}

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

/// Writes all of it, in parts of some sizes, as a caller that keeps what wasn't accepted.
void write_all(Stream& stream, ByteSpan bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    std::vector<iovec> parts;
    std::size_t offered = 0;
    for (std::size_t size = 1; at + offered < bytes.size() && offered < 200'000; size = size * 5 % 40'009 + 1) {
      const std::size_t part = std::min(size, bytes.size() - at - offered);
      parts.push_back({const_cast<std::byte*>(bytes.data()) + at + offered, part});
      offered += part;
    }
    const IoResult written = stream.write(parts);
    ASSERT_NE(written.state, IoResult::State::kEnd);
    at += written.bytes;
    if (written.bytes < offered) await(stream.get(), POLLOUT);
  }
}

/// Reads so many bytes.
std::vector<std::byte> read_all(Stream& stream, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size;) {
    const std::array<iovec, 2> parts = {iovec{bytes.data() + at, (size - at) / 2},
                                        iovec{bytes.data() + at + (size - at) / 2, size - at - (size - at) / 2}};
    const IoResult got = stream.read(parts);
    if (got.state == IoResult::State::kEnd) throw ConnectionError("it has ended");
    at += got.bytes;
    if (at < size && !got.more) await(stream.get(), POLLIN);
  }
  return bytes;
}

void complete(Stream& stream) {
  for (;;) {
    const Stream::State state = stream.handshake();
    if (state == Stream::State::kComplete) return;
    ASSERT_EQ(state, Stream::State::kWaiting);
    await(stream.get(), stream.wants_room() ? POLLIN | POLLOUT : POLLIN);
  }
}

std::shared_ptr<const Context> server_context() {
  return std::make_shared<const Context>(End::kServer, certificates().server_options());
}
std::shared_ptr<const Context> client_context() {
  return std::make_shared<const Context>(End::kClient, certificates().client_options());
}

/// Two streams over a pair of sockets; with `middle`, a thread stands in between and may change bytes.
class TlsStreams : public ::testing::Test {
 protected:
  void start(std::uint64_t records_per_key = Stream::kRecordsPerKey) {
    auto [a, b] = socket_pair();
    start(std::move(a), std::move(b), records_per_key);
  }
  void start(UniqueFd of_server, UniqueFd of_client, std::uint64_t records_per_key = Stream::kRecordsPerKey) {
    server_.emplace(std::move(of_server), "the client", server_context(), "", records_per_key);
    client_.emplace(std::move(of_client), "the server", client_context(), "localhost", records_per_key);
    std::jthread shaking([this] { complete(*client_); });
    complete(*server_);
  }

  std::optional<Stream> server_;
  std::optional<Stream> client_;
};

TEST_F(TlsStreams, PartsOfAllSizesComeOutAsTheyWereWritten) {
  start();
  const auto bytes = pattern(5'000'000);
  std::jthread writing([&] { write_all(*server_, bytes); });
  EXPECT_EQ(read_all(*client_, bytes.size()), bytes);
}

TEST_F(TlsStreams, TheBindingIsEqualAtBothEndsAndOfThisConnectionOnly) {
  start();
  const auto binding = server_->binding();
  EXPECT_EQ(binding, client_->binding());
  start();
  EXPECT_NE(server_->binding(), binding);
}

TEST_F(TlsStreams, KeysChangeUnderLoadInBothDirections) {
  start(1);  // after each record
  const auto bytes = pattern(3'000'000);
  const auto run = [&](Stream& stream) {
    std::jthread writing([&] { write_all(stream, bytes); });
    EXPECT_EQ(read_all(stream, bytes.size()), bytes);
  };
  std::jthread other([&] { run(*client_); });
  run(*server_);
}

TEST_F(TlsStreams, APeerMayRequestNewKeysUnderLoad) {
  auto [a, b] = socket_pair();
  Stream server(std::move(a), "the client", server_context());
  RawClient peer(std::move(b), {});
  std::jthread shaking([&] { EXPECT_TRUE(peer.connect()); });
  complete(server);
  shaking.join();
  const auto bytes = pattern(2'000'000);
  std::jthread echoing([&] { write_all(server, read_all(server, bytes.size())); });
  std::vector<std::byte> got;
  // The answers to 100 requests are small: the peer reads them at the end.
  for (std::size_t at = 0; at < bytes.size(); at += 20'000) {
    EXPECT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    peer.send(ByteSpan(bytes).subspan(at, 20'000));
  }
  EXPECT_EQ(peer.receive(bytes.size()), bytes);
}

TEST_F(TlsStreams, APeerThatRequestsKeysAndReadsNothingIsEnded) {
  auto [a, b] = socket_pair();
  const int small = 4096;
  ::setsockopt(a.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  Stream server(std::move(a), "the client", server_context());
  RawClient peer(std::move(b), {});
  std::jthread shaking([&] { EXPECT_TRUE(peer.connect()); });
  complete(server);
  shaking.join();
  // Fills the socket, so that no answer leaves.
  const auto bytes = pattern(1 << 20);
  const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ASSERT_LT(server.write({&all, 1}).bytes, bytes.size());
  try {
    for (int i = 0; i < 10'000; ++i) {
      ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_REQUESTED), 1);
      peer.send(ByteSpan(bytes).first(1));
      read_all(server, 1);
    }
    ADD_FAILURE() << "memory for 10,000 answers";
  } catch (const ProtocolError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("doesn't read the answers"));
  }
}

TEST_F(TlsStreams, ThereIsNoRenegotiation) {
  start();
  auto [a, b] = socket_pair();
  Stream server(std::move(a), "the client", server_context());
  RawClient peer(std::move(b), {});
  std::jthread shaking([&] { EXPECT_TRUE(peer.connect()); });
  complete(server);
  shaking.join();
  EXPECT_NE(SSL_renegotiate(peer.get()), 1) << "TLS 1.3 has none";
}

TEST_F(TlsStreams, AClosedPeerIsAnOrderlyEndAndACutOneAnEnd) {
  start();
  server_->finish();
  std::byte one;
  const iovec all{&one, 1};
  await(client_->get(), POLLIN);
  IoResult got = client_->read({&all, 1});
  EXPECT_EQ(got.state, IoResult::State::kEnd);
  EXPECT_EQ(client_->read({&all, 1}).state, IoResult::State::kEnd) << "for good";
  start();
  server_.reset();
  await(client_->get(), POLLIN);
  got = client_->read({&all, 1});
  EXPECT_EQ(got.state, IoResult::State::kEnd);
  const auto bytes = pattern(1 << 20);
  const iovec many{const_cast<std::byte*>(bytes.data()), bytes.size()};
  EXPECT_EQ(client_->write({&many, 1}).state, IoResult::State::kEnd) << "and no SIGPIPE";
}

TEST_F(TlsStreams, AChangedByteIsFoundAndSaid) {
  auto [a, middle_a] = socket_pair();
  auto [b, middle_b] = socket_pair();
  std::atomic<bool> change{false};
  std::jthread passing([&, from = std::move(middle_a), to = std::move(middle_b)] {
    std::array<std::byte, 4096> bytes;
    for (;;) {
      std::array<pollfd, 2> ask = {pollfd{from.get(), POLLIN, 0}, pollfd{to.get(), POLLIN, 0}};
      ::poll(ask.data(), ask.size(), 10'000);
      const bool forth = ask[0].revents != 0;
      const ssize_t got = ::recv(ask[forth ? 0 : 1].fd, bytes.data(), bytes.size(), 0);
      if (got <= 0) return;
      if (change) bytes[static_cast<std::size_t>(got) - 1] ^= std::byte{1};
      ::send(ask[forth ? 1 : 0].fd, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
    }
  });
  start(std::move(a), std::move(b));
  change = true;
  write_all(*server_, pattern(100));
  try {
    read_all(*client_, 100);
    ADD_FAILURE() << "it was read";
  } catch (const ProtocolError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the server sent bytes that break TLS"));
  }
  server_.reset();
  client_.reset();
}

}  // namespace
}  // namespace crossdock::transport::tls_test
