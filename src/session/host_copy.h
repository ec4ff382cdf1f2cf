#pragma once

#include <cstdint>
#include <memory>

#include "session/published_table.h"
#include "session/table_task.h"

namespace crossdock::session {

/// A copy on the host of a table that is in memory of devices, for consumers that can't open it. Made once, when a
/// consumer first needs it. Thread-safe.
class HostCopy final : public TableTask {
 public:
  explicit HostCopy(std::shared_ptr<const PublishedTable> table) : table_(std::move(table)) {}
  std::uint64_t bytes_copied() const;

 protected:
  std::shared_ptr<const PublishedTable> make() override;

 private:
  std::shared_ptr<const PublishedTable> table_;  // until the copy is made
};

}  // namespace crossdock::session
