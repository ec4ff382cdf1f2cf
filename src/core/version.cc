#include "crossdock/version.h"

namespace crossdock {

std::string_view version() noexcept { return CROSSDOCK_VERSION; }

}  // namespace crossdock
