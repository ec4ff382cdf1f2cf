#include "arriving_body.h"

#include <utility>

namespace crossdock::transport::fabric {

ArrivingBody::ArrivingBody(std::uint64_t tag, BodyAnnouncement announced, std::shared_ptr<std::byte> memory)
    : tag_(tag), announced_(std::move(announced)), memory_(std::move(memory)) {
  std::uint64_t offset = 0;
  for (const std::uint64_t length : announced_.lengths) {
    messages_.emplace_back(*this, offset, length);
    offset += length;
  }
}

bool ArrivingBody::post(Endpoint& endpoint) {
  while (posted_ < messages_.size()) {
    Message& next = messages_[posted_];
    const auto size = static_cast<std::size_t>(next.size());
    if (!endpoint.receive(memory_.get() + next.offset(), size, announced_.first_tag + posted_,
                          {shared_from_this(), &next}))
      return false;
    ++posted_;
  }
  return true;
}

}  // namespace crossdock::transport::fabric
