#pragma once

#include <string>

#include "flight/carrier.h"

/// Where gRPC's own messages go.
namespace crossdock::flight::grpc_module {

void set_log(void (*log)(std::int32_t level, xd_bytes text));

/// While it lives, keeps this thread's last error of gRPC's in `*text`: some of its functions tell their reason no
/// other way.
class LogCapture {
 public:
  explicit LogCapture(std::string* text) noexcept;
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
};

}  // namespace crossdock::flight::grpc_module
