#include "handshake.h"

#include <algorithm>
#include <string>

#include "control.h"
#include "crossdock/core/error.h"
#include "transport/net/limits.h"

namespace crossdock::transport::ucx {

void check_options(const UcxOptions& options) {
  net::check_limits(options, "UcxOptions");
  if (options.transports.empty()) {
    throw InvalidArgumentError("UcxOptions::transports is empty: UCX would have none to use; \"all\" allows every one");
  }
  if (options.remote_reads) {
    throw UnsupportedError("UcxOptions::remote_reads isn't supported yet: leave it off");
  }
}

ReceiveLimits limits_for(const UcxOptions& options, std::uint64_t max_message) {
  return {.max_untagged = max_message,
          .max_control = std::max(net::kMaxRecord, kMaxControlBytes),
          .max_tagged = std::max(max_message, options.max_body)};
}

}  // namespace crossdock::transport::ucx
