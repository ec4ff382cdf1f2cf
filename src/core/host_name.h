#pragma once

#include <string>

namespace crossdock {

/// The name of this machine. Throws SystemError.
std::string host_name();

}  // namespace crossdock
