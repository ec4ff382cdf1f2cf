#include "core/host_name.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "crossdock/core/error.h"

namespace crossdock {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno(errno, "asking for the host's name");
  return name.data();
}

}  // namespace crossdock
