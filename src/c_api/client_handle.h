#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/array/record_batch.h"
#include "crossdock/c_api/client.h"
#include "crossdock/session/client.h"

struct crossdock_client {
  crossdock_client(const std::string& uri, crossdock::session::ClientOptions options,
                   crossdock::transport::InterruptHook hook)
      : client(uri, std::move(options), hook), interrupted(std::move(hook)) {}
  crossdock::session::Client client;
  crossdock::transport::InterruptHook interrupted;
};

struct crossdock_reader {
  std::shared_ptr<crossdock::session::Reader> reader;
  /// A batch that was received and couldn't be handed over: the next call gives it.
  std::optional<crossdock::array::RecordBatch> pending{};
};
