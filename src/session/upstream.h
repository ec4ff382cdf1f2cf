#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "crossdock/session/stats.h"
#include "session/published_table.h"
#include "session/table_task.h"

namespace crossdock::session {

class FetchTask;

/// Where a relay's catalog gets its tables. Thread-safe.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Whether a request for a published name, with this version, is answered with what is published, without a call of
  /// fetch(). I/O thread, with the catalog's lock held: never waits, and doesn't call the catalog.
  virtual bool is_current(std::string_view name, std::int64_t version) noexcept = 0;
  /// Returns the table for the requests of a task: what is published, if it is current, or else what it has published
  /// under this name meanwhile. On a thread of the catalog's pool; may wait for a network. Throws the error that the
  /// consumers receive.
  virtual std::shared_ptr<const PublishedTable> fetch(const std::string& name, FetchTask& task) = 0;
  /// Returns the catalog. Threads and errors as of fetch().
  virtual std::shared_ptr<const PublishedTable> listing() = 0;
  /// Never waits.
  virtual RelayStats stats() const = 0;
};

/// One call of an upstream, for all consumers that ask for a name while it is under way.
class FetchTask final : public TableTask {
 public:
  /// `name`: empty for the catalog. `upstream` must outlive the pool's tasks.
  FetchTask(Upstream& upstream, std::string name) : upstream_(upstream), name_(std::move(name)) {}

  /// Tells the schema and the version of the table that is received, before it is there. May be called again; consumers
  /// get an error if the table is another one than they were told.
  using TableTask::announce;
  /// Lets no other request join: it needn't wait as long as this one may.
  void seal() noexcept { sealed_.store(true, std::memory_order_seq_cst); }
  bool sealed() const noexcept { return sealed_.load(std::memory_order_seq_cst); }

 protected:
  std::shared_ptr<const PublishedTable> make() override;

 private:
  Upstream& upstream_;
  const std::string name_;
  std::atomic<bool> sealed_{false};
};

}  // namespace crossdock::session
