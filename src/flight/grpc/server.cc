#include "server.h"

#include <grpc/grpc.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>

#include "call.h"
#include "log.h"
#include "message.h"

namespace crossdock::flight::grpc_module {
namespace {

constexpr int kPingAfterMs = 30'000;
constexpr int kAnswerWithinMs = 20'000;

/// Returns a client's header, or nothing.
std::string_view header(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  return found == context.client_metadata().end() ? std::string_view()
                                                  : std::string_view(found->second.data(), found->second.length());
}

/// Destroys itself after its last event.
class ServerCall final : public xd_call, private grpc::ServerGenericBidiReactor {
 public:
  explicit ServerCall(grpc::GenericCallbackServerContext* context) : context_(context) {}
  grpc::ServerGenericBidiReactor* reactor() noexcept { return this; }

  void start(void* (*begin)(void*, xd_call*, const xd_caller*, xd_call_events*), void* server_data) {
    const std::string& path = context_->method();
    const std::string peer = context_->peer();
    const xd_caller caller{.method = bytes_of(std::string_view(path).substr(path.rfind('/') + 1)),
                           .authorization = bytes_of(header(*context_, "authorization")),
                           .auth_token = bytes_of(header(*context_, "auth-token-bin")),
                           .peer = bytes_of(peer)};
    data_ = begin(server_data, this, &caller, &events_);
  }

  void read() override { StartRead(&in_); }
  void write(const xd_slice* parts, std::size_t n_parts) override {
    out_ = to_buffer(parts, n_parts);
    StartWrite(&out_);
  }
  void finish(const xd_slice* parts, std::size_t n_parts, xd_status status, xd_bytes authorization) override {
    if (authorization.size > 0) context_->AddTrailingMetadata("authorization", string_of(authorization));
    const grpc::Status end(static_cast<grpc::StatusCode>(status.code), string_of(status.message));
    if (n_parts == 0) return Finish(end);
    out_ = to_buffer(parts, n_parts);
    // A write and a Finish() after it stand still in gRPC 1.51 where the client expects one message alone.
    StartWriteAndFinish(&out_, {}, end);
  }
  void writes_done() override {}  // of a client
  void cancel() override { context_->TryCancel(); }
  void release() override {}  // of a client

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return events_.last(data_);
    grpc::ByteBuffer message;
    message.Swap(&in_);  // the event may read the next one
    pass_on(message, events_, data_);
  }
  void OnWriteDone(bool ok) override {
    out_.Clear();
    events_.written(data_, ok ? 1 : 0);
  }
  void OnCancel() override { events_.cancelled(data_); }
  void OnDone() override {
    events_.ended(data_, {}, {});
    delete this;
  }

  grpc::GenericCallbackServerContext* const context_;
  xd_call_events events_{};
  void* data_ = nullptr;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const xd_tls& tls) {
  if (tls.on == 0) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(tls.roots.size == 0
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = string_of(tls.roots);
  options.pem_key_cert_pairs.push_back({string_of(tls.private_key), string_of(tls.certificate_chain)});
  return grpc::SslServerCredentials(options);
}

}  // namespace
}  // namespace crossdock::flight::grpc_module

using namespace crossdock::flight::grpc_module;

grpc::ServerGenericBidiReactor* xd_server::CreateReactor(grpc::GenericCallbackServerContext* context) {
  auto* const call = new ServerCall(context);
  call->start(begin_, data_);
  return call->reactor();
}

std::unique_ptr<xd_server> xd_server::start(const xd_server_options& options, std::int32_t* port,
                                            std::string* failure) {
  const LogCapture capture(failure);
  std::unique_ptr<xd_server> made(new xd_server(options));
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(string_of(options.address), credentials(options.tls), &bound);
  builder.RegisterCallbackGenericService(made.get());
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<std::int64_t>(options.max_message, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  // Ends the calls of clients whose machine is gone.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAnswerWithinMs);
  // Two servers would share a port, each with some of the clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  made->server_ = builder.BuildAndStart();
  if (!made->server_ || bound == 0) return nullptr;
  *port = bound;
  return made;
}

void xd_server::stop(std::int32_t patience_ms) {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(patience_ms));
}
