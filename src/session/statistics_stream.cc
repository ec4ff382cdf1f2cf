#include "session/statistics_stream.h"

#include <stdexcept>

#include "array/metadata.h"
#include "session/table_version.h"

namespace crossdock::session {
namespace {

constexpr const char* kStatisticsKey = "crossdock:statistics";

}  // namespace

std::vector<std::byte> statistics_message(std::string text) {
  return schema_message(array::Schema({}, {{kStatisticsKey, std::move(text)}}), -1);
}

const std::string* statistics_text_in(const array::Schema& schema) {
  return array::find_value(schema.metadata(), kStatisticsKey);
}

ServerStream::State StatisticsStream::peek(Outgoing* out) {
  if (sent_) return State::kEnd;
  *out = {};
  out->metadata = *message_;
  return State::kReady;
}

const std::shared_ptr<const device::Region>& StatisticsStream::region(std::uint32_t /*index*/) const {
  throw std::logic_error("statistics have no regions");
}

// It lends nothing.
void StatisticsStream::returned(std::uint32_t /*slot*/, std::uint32_t /*n*/) noexcept {}

}  // namespace crossdock::session
