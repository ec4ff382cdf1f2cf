#include "window.h"

#include <algorithm>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {

bool Acknowledgements::set_window(std::uint64_t messages, const std::string& where) {
  if (messages == 0) throw ProtocolError(where + " announced a window of 0 messages");
  quantum_ = std::clamp<std::uint64_t>(messages / 4, 1, kQuietMessages);
  return taken_ - acknowledged_ >= quantum_;
}

void SendWindow::taken(std::uint64_t messages, std::uint64_t sent, const std::string& where) {
  const std::uint64_t before = taken_.load(std::memory_order_relaxed);
  if (messages < before || messages > sent) {
    throw ProtocolError(where + " acknowledged " + std::to_string(messages) + " messages (before: " +
                        std::to_string(before) + "), but only " + std::to_string(sent) + " were sent to it");
  }
  taken_.store(messages, std::memory_order_release);
}

}  // namespace crossdock::transport::net
