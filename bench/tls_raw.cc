// Bodies over a bare pair of SSL_write and SSL_read, one end of it, with none of our code: what connections of tcp+tls
// are measured beside. It has the same socket options, version and cipher, and receives into memory that is used again
// and again. OpenSSL uses the sockets itself, and waits in them.
//   --role serve | consume
//   --host ADDRESS --certificate FILE --key FILE   of the server; --address HOST:PORT of the client
//   --body-bytes N --parts N --sets N --batches N --warm-up N   as in bodies.cc
#include <openssl/ssl.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "body_memory.h"
#include "crossdock/core/error.h"
#include "raw_socket.h"

namespace crossdock::bench {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
using SessionPtr = std::unique_ptr<SSL, void (*)(SSL*)>;
/// The metadata of a body, and its length.
using Head = std::array<std::byte, kMetadata + 8>;

ContextPtr make_context(const SSL_METHOD* method) {
  ContextPtr context(::SSL_CTX_new(method), ::SSL_CTX_free);
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  return context;
}

SessionPtr make_session(const ContextPtr& context, int socket) {
  SessionPtr session(::SSL_new(context.get()), ::SSL_free);
  ::SSL_set_fd(session.get(), socket);
  return session;
}

bool write_all(const SessionPtr& session, ByteSpan bytes) {
  std::size_t written = 0;
  return ::SSL_write_ex(session.get(), bytes.data(), bytes.size(), &written) == 1 && written == bytes.size();
}

void read_all(const SessionPtr& session, std::byte* to, std::size_t size) {
  for (std::size_t got = 0; size > 0; to += got, size -= got) {
    if (::SSL_read_ex(session.get(), to, size, &got) != 1) throw ConnectionError("the stream ended early");
  }
}

void serve(const Arguments& arguments, const Plan& plan) {
  const std::vector<Memory> memory = make_bodies(plan);
  const ContextPtr context = make_context(::TLS_server_method());
  if (::SSL_CTX_use_certificate_chain_file(context.get(), arguments.text("certificate").c_str()) != 1 ||
      ::SSL_CTX_use_PrivateKey_file(context.get(), arguments.text("key").c_str(), SSL_FILETYPE_PEM) != 1) {
    throw InvalidArgumentError("--certificate and --key can't be used");
  }
  const UniqueFd socket = accept_raw(arguments);
  const SessionPtr session = make_session(context, socket.get());
  if (::SSL_accept(session.get()) != 1) throw ConnectionError("the handshake failed");
  const std::int64_t start_cpu = cpu_ns();
  Head head{};
  store_le(head.data() + kMetadata, static_cast<std::uint64_t>(plan.body_bytes));
  std::int64_t sent = 0;
  for (; sent < plan.warm_up + plan.batches; ++sent) {
    bool done = write_all(session, head);
    for (const ByteSpan part : parts_of(memory[static_cast<std::size_t>(sent) % plan.sets], plan)) {
      done = done && write_all(session, part);
    }
    if (!done) break;
  }
  std::printf("{\"cpu\":%.1f}\n", static_cast<double>(cpu_ns() - start_cpu) / static_cast<double>(sent));
  std::fflush(stdout);
  std::byte end;
  std::size_t got = 0;
  ::SSL_read_ex(session.get(), &end, 1, &got);  // until the client goes
}

void consume(const Arguments& arguments, const Plan& plan) {
  const ContextPtr context = make_context(::TLS_client_method());
  const UniqueFd socket = connect_raw(arguments);
  const SessionPtr session = make_session(context, socket.get());
  if (::SSL_connect(session.get()) != 1) throw ConnectionError("the handshake failed");
  const std::array<Memory, 2> memory = {make_memory(plan.body_bytes, 0), make_memory(plan.body_bytes, 0)};
  Head head{};
  measure(plan, [&](std::int64_t i) {
    const Memory& to = memory[static_cast<std::size_t>(i) % memory.size()];
    read_all(session, head.data(), head.size());
    if (load_le<std::uint64_t>(head.data() + kMetadata) != plan.body_bytes) throw ConnectionError("a wrong length");
    read_all(session, to.get(), plan.body_bytes);
    check_body({to.get(), plan.body_bytes}, i, plan);
  });
}

void transfer(const Arguments& arguments) {
  const Plan plan(arguments);
  const std::string role = arguments.text("role");
  if (role != "serve" && role != "consume") throw InvalidArgumentError("--role is serve or consume");
  role == "serve" ? serve(arguments, plan) : consume(arguments, plan);
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(
      argc, argv,
      {"role", "host", "address", "certificate", "key", "body-bytes", "parts", "sets", "batches", "warm-up", "wait"},
      crossdock::bench::transfer);
}
