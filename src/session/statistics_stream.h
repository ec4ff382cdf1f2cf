#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session/server_stream.h"

namespace crossdock::session {

/// Returns the Schema message that carries statistics: no fields, and the text in the schema's metadata. So the answer
/// needs no memory but that of one message, and goes over every connection, whatever its ways and role.
std::vector<std::byte> statistics_message(std::string text);
/// Returns the text in such a schema; null if there is none.
const std::string* statistics_text_in(const array::Schema& schema);

/// Sends such a message, and nothing else.
class StatisticsStream final : public ServerStream {
 public:
  explicit StatisticsStream(std::shared_ptr<const std::vector<std::byte>> message)
      : ServerStream({transport::Way::kMessage, ""}), message_(std::move(message)) {}

  State peek(Outgoing* out) override;
  void pop() override { sent_ = true; }
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override;
  void returned(std::uint32_t slot, std::uint32_t n) noexcept override;

 private:
  const std::shared_ptr<const std::vector<std::byte>> message_;
  bool sent_ = false;
};

}  // namespace crossdock::session
