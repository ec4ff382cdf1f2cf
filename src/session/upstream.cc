#include "session/upstream.h"

namespace crossdock::session {

std::shared_ptr<const PublishedTable> FetchTask::make() {
  if (name_.empty()) return publish_catalog(upstream_.rows());
  return upstream_.fetch(name_, [this](const array::Schema& schema) { announce(schema); });
}

}  // namespace crossdock::session
