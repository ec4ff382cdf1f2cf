#include "session/host_copy.h"

#include "session/device_table.h"

namespace crossdock::session {

std::shared_ptr<const PublishedTable> HostCopy::make() {
  auto copy = host_copy_of(*table_);
  table_.reset();
  return copy;
}

std::uint64_t HostCopy::bytes_copied() const {
  const auto copy = made();
  return copy ? copy->bytes_copied : 0;
}

}  // namespace crossdock::session
