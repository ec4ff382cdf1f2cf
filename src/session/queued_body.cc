#include "session/queued_body.h"

#include "crossdock/core/error.h"

namespace crossdock::session {

bool QueuedBody::begin() {
  if (parts.empty()) return true;
  try {
    reading_ = connection_.read(parts, batch.owner);
  } catch (const ConnectionError& error) {
    throw_truncated(error.what());
  }
  return reading_ != nullptr;
}

bool QueuedBody::done() {
  try {
    return !reading_ || reading_->done();
  } catch (const ConnectionError& error) {
    throw_truncated(error.what());
  }
}

void QueuedBody::abandon() noexcept {
  if (lease) lease->abandon();
}

void QueuedBody::throw_truncated(const char* why) const {
  throw TruncatedStreamError("the stream \"" + stream_ + "\" was cut off in the middle of reading message " +
                             std::to_string(batch.sequence) + ": " + why);
}

}  // namespace crossdock::session
