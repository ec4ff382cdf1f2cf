#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/catalog_table.h"
#include "session/published_table.h"
#include "session/table_task.h"

namespace crossdock::session {

/// Where a relay's catalog gets its tables. Thread-safe.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Whether a request for a published name is answered with what is published, without a call of fetch(). I/O thread,
  /// with the catalog's lock held: never waits, and doesn't call the catalog.
  virtual bool is_current(std::string_view name) noexcept = 0;
  /// Tells the schema of the table that fetch() receives, before it is there. May be called again, with the same schema
  /// or another one: then consumers that have got the first get an error.
  using Announce = std::function<void(const array::Schema& schema)>;
  /// Returns the table for a request: what is published, if it is current, or else what it has published under this
  /// name meanwhile. On a thread of the catalog's pool; may wait for a network. Throws the error that the consumers
  /// receive.
  virtual std::shared_ptr<const PublishedTable> fetch(const std::string& name, const Announce& announce) = 0;
  /// Returns the rows of the catalog. Threads and errors as of fetch().
  virtual std::vector<CatalogRow> rows() = 0;
};

/// One call of an upstream, for all consumers that ask for a name while it is under way.
class FetchTask final : public TableTask {
 public:
  /// `name`: empty for the catalog. `upstream` must outlive the pool's tasks.
  FetchTask(Upstream& upstream, std::string name) : upstream_(upstream), name_(std::move(name)) {}

 protected:
  std::shared_ptr<const PublishedTable> make() override;

 private:
  Upstream& upstream_;
  const std::string name_;
};

}  // namespace crossdock::session
