#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "flight/carrier.h"

/// A connection to a server, made when its first call starts.
struct xd_channel {
  explicit xd_channel(const xd_channel_options& options);
  xd_call* start(xd_bytes path, xd_bytes authorization, std::int64_t deadline_ms, const xd_call_events& events,
                 void* data);

 private:
  grpc::GenericStub stub_;
};
