#include "session/upstream.h"

namespace crossdock::session {

std::shared_ptr<const PublishedTable> FetchTask::make() {
  return name_.empty() ? upstream_.listing() : upstream_.fetch(name_, *this);
}

}  // namespace crossdock::session
