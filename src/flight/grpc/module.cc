#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "call.h"
#include "client.h"
#include "flight/carrier.h"
#include "log.h"
#include "message.h"
#include "server.h"

namespace {

using namespace crossdock::flight::grpc_module;

const char* library_version() {
  static const std::string version = "gRPC " + grpc::Version();
  return version.c_str();
}

xd_server* server_start(const xd_server_options* options, std::int32_t* port, void (*failed)(void*, xd_bytes),
                        void* data) {
  std::string failure;
  std::unique_ptr<xd_server> server = xd_server::start(*options, port, &failure);
  if (!server) failed(data, bytes_of(failure));
  return server.release();
}

void server_stop(xd_server* server, std::int32_t patience_ms) {
  server->stop(patience_ms);
  delete server;
}

const xd_carrier carrier = {
    .version = CROSSDOCK_CARRIER_VERSION,
    .library_version = library_version,
    .set_log = set_log,
    .server_start = server_start,
    .server_stop = server_stop,
    .read = [](xd_call* call) { call->read(); },
    .drop_message = [](xd_message* held) { delete held; },
    .write = [](xd_call* call, const xd_slice* parts, std::size_t n_parts) { call->write(parts, n_parts); },
    .finish = [](xd_call* call, const xd_slice* parts, std::size_t n_parts, xd_status status,
                 xd_bytes authorization) { call->finish(parts, n_parts, status, authorization); },
    .writes_done = [](xd_call* call) { call->writes_done(); },
    .cancel = [](xd_call* call) { call->cancel(); },
    .channel_open = [](const xd_channel_options* options) { return new xd_channel(*options); },
    .channel_close = [](xd_channel* channel) { delete channel; },
    .call_start = [](xd_channel* channel, xd_bytes path, xd_bytes authorization, std::int64_t deadline_ms,
                     const xd_call_events* events,
                     void* data) { return channel->start(path, authorization, deadline_ms, *events, data); },
    .release = [](xd_call* call) { call->release(); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const xd_carrier* crossdock_carrier(std::uint32_t version) {
  if (version != CROSSDOCK_CARRIER_VERSION) return nullptr;
  // gRPC stays as long as the process: otherwise the last server or channel ends it, which may take 10 s.
  static const bool initialized = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(initialized);
  return &carrier;
}
