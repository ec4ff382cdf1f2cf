#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>

#include "flight/carrier.h"

/// A server that passes every call to its owner, whatever its method is.
struct xd_server final : private grpc::CallbackGenericService {
 public:
  /// Listens. Returns null if it can't, with the reason in `*failure`.
  static std::unique_ptr<xd_server> start(const xd_server_options& options, std::int32_t* port, std::string* failure);
  ~xd_server() override = default;
  void stop(std::int32_t patience_ms);

 private:
  explicit xd_server(const xd_server_options& options) : begin_(options.begin), data_(options.server_data) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

  void* (*const begin_)(void*, xd_call*, const xd_caller*, xd_call_events*);
  void* const data_;
  std::unique_ptr<grpc::Server> server_;
};
