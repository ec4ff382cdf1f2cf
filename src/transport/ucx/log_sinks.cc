#include "log_sinks.h"

namespace crossdock::transport::ucx {

LogSinks& log_sinks() {
  static auto* const sinks = new LogSinks;  // never destroyed: a thread of UCX may log while the process ends
  return *sinks;
}

}  // namespace crossdock::transport::ucx
