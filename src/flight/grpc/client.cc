#include "client.h"

#include <grpc/grpc.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <utility>

#include "call.h"
#include "message.h"

namespace crossdock::flight::grpc_module {
namespace {

/// Destroys itself after its last event and release().
class ClientCall final : public xd_call, private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ClientCall(const xd_call_events& events, void* data) : events_(events), data_(data) {}

  void start(grpc::GenericStub& stub, xd_bytes path, xd_bytes authorization, std::int64_t deadline_ms) {
    if (authorization.size > 0) context_.AddMetadata("authorization", string_of(authorization));
    if (deadline_ms > 0) {
      context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
    }
    stub.PrepareBidiStreamingCall(&context_, string_of(path), {}, this);
    AddHold();  // reads and writes are started by other threads, until read_all()
    StartCall();
  }

  void read() override {
    {
      const std::lock_guard lock(mutex_);
      if (!read_all_) {
        reading_ = true;
        StartRead(&in_);
        return;
      }
    }
    events_.last(data_);
  }
  void write(const xd_slice* parts, std::size_t n_parts) override {
    grpc::ByteBuffer message = to_buffer(parts, n_parts);
    {
      const std::lock_guard lock(mutex_);
      if (!read_all_) {
        out_.Swap(&message);
        StartWrite(&out_);
        return;
      }
    }
    events_.written(data_, 0);
  }
  void finish(const xd_slice*, std::size_t, xd_status, xd_bytes) override {}  // of a server
  void writes_done() override {
    const std::lock_guard lock(mutex_);
    if (!read_all_) StartWritesDone();
  }
  void release() override { drop_owner(); }
  void cancel() override {
    context_.TryCancel();
    const std::lock_guard lock(mutex_);
    // The call ends when a read says that nothing follows.
    if (read_all_ || std::exchange(reading_, true)) return;
    cancelled_ = true;
    StartRead(&in_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return read_all();
    grpc::ByteBuffer message;
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      message.Swap(&in_);  // the event may read the next one
      reading_ = cancelled_;
      cancelled = cancelled_;
      if (cancelled) StartRead(&in_);
    }
    if (cancelled) return;
    pass_on(message, events_, data_);
  }
  void read_all() {
    bool asked = false;
    {
      const std::lock_guard lock(mutex_);
      read_all_ = true;
      asked = !cancelled_;
    }
    if (asked) events_.last(data_);
    RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      out_.Clear();
    }
    events_.written(data_, ok ? 1 : 0);
  }
  void OnDone(const grpc::Status& status) override {
    std::string_view token;
    for (const auto* headers : {&context_.GetServerInitialMetadata(), &context_.GetServerTrailingMetadata()}) {
      const auto found = headers->find("authorization");
      if (found != headers->end()) token = {found->second.data(), found->second.length()};
    }
    const std::string& text = status.error_message();
    events_.ended(data_, {static_cast<std::int32_t>(status.error_code()), bytes_of(text)}, bytes_of(token));
    drop_owner();
  }
  void drop_owner() {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  std::atomic<int> owners_{2};  // gRPC and the caller
  const xd_call_events events_;
  void* const data_;
  grpc::ClientContext context_;
  // StartRead() and StartWrite() may not be called once the hold is removed: the mutex orders them. They start work and
  // call no reaction.
  std::mutex mutex_;
  bool reading_ = false;
  bool read_all_ = false;
  bool cancelled_ = false;  // the read under way is cancel()'s: it has no event
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
};

/// Keeps the threads that call clients back for as long as the process lives. gRPC 1.51 ends them with the last channel
/// that has had a call, also on one of these threads themselves, which then aborts. So there is a call that is never
/// started, on a channel that never connects.
void keep_threads() {
  struct Kept {
    grpc::GenericStub stub{grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials())};
    grpc::ClientContext context;
    grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> reactor;
  };
  static Kept* const kept = [] {
    auto* const made = new Kept;
    made->stub.PrepareBidiStreamingCall(&made->context, "/none", {}, &made->reactor);
    return made;
  }();
  static_cast<void>(kept);
}

std::shared_ptr<grpc::Channel> open(const xd_channel_options& options) {
  keep_threads();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<std::int64_t>(options.max_message, std::numeric_limits<int>::max())));
  arguments.SetMaxSendMessageSize(-1);
  // A client that reconnects isn't told of a failure that another client had some time ago.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A server that is back is found within a second; by default gRPC may wait two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (options.tls.on != 0) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = string_of(options.tls.roots);
    tls.pem_cert_chain = string_of(options.tls.certificate_chain);
    tls.pem_private_key = string_of(options.tls.private_key);
    credentials = grpc::SslCredentials(tls);
    const std::string name = string_of(options.tls.server_name);
    if (!name.empty()) arguments.SetSslTargetNameOverride(name);
  }
  return grpc::CreateCustomChannel(string_of(options.target), credentials, arguments);
}

}  // namespace
}  // namespace crossdock::flight::grpc_module

using namespace crossdock::flight::grpc_module;

xd_channel::xd_channel(const xd_channel_options& options) : stub_(open(options)) {}

xd_call* xd_channel::start(xd_bytes path, xd_bytes authorization, std::int64_t deadline_ms,
                           const xd_call_events& events, void* data) {
  auto* const call = new ClientCall(events, data);
  call->start(stub_, path, authorization, deadline_ms);
  return call;
}
